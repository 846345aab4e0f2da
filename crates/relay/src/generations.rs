//! A map that forgets what was not used for longest, in constant time.
//!
//! Two generations: what is used moves to the young one. When that is full, the old one goes and the young one becomes old.
//! So at most `2 * half` entries are held, and whoever was used since the last change of generations stays.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// See the module.
#[derive(Debug)]
pub(crate) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Eq + Hash + Clone, V> Generations<K, V> {
    /// Holds at most `2 * half` entries.
    pub(crate) fn new(half: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), half: half.max(1) }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// The value, which counts as used now. The second part are values that had to go.
    pub(crate) fn used<Q>(&mut self, key: &Q) -> (Option<&mut V>, HashMap<K, V>)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut gone = HashMap::new();
        if let Some((key, value)) = self.old.remove_entry(key) {
            gone = self.make_room();
            self.young.insert(key, value);
        }
        (self.young.get_mut(key), gone)
    }

    /// Adds or replaces. What had to go is returned; a value that was replaced is not.
    pub(crate) fn insert(&mut self, key: K, value: V) -> HashMap<K, V> {
        self.old.remove(&key);
        let gone = if self.young.contains_key(&key) { HashMap::new() } else { self.make_room() };
        self.young.insert(key, value);
        gone
    }

    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    /// Keeps only some.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.young.retain(&mut keep);
        self.old.retain(&mut keep);
    }

    /// Lets the old generation go, so that there is room; the young one if nothing is old.
    pub(crate) fn age(&mut self) -> HashMap<K, V> {
        let young = std::mem::take(&mut self.young);
        if self.old.is_empty() {
            return young;
        }
        std::mem::replace(&mut self.old, young)
    }

    fn make_room(&mut self) -> HashMap<K, V> {
        if self.young.len() < self.half {
            return HashMap::new();
        }
        let young = std::mem::take(&mut self.young);
        std::mem::replace(&mut self.old, young)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_bounded() {
        let mut map = Generations::new(4);
        map.insert(0, "kept");
        for number in 1..100 {
            map.insert(number, "once");
            assert!(map.len() <= 8);
            assert!(map.used(&0).0.is_some(), "used all the time");
        }
        assert!(map.used(&1).0.is_none(), "never used again");
        assert_eq!(map.remove(&0), Some("kept"));
        assert!(map.used(&0).0.is_none());
    }

    #[test]
    fn nothing_is_there_twice() {
        let mut map = Generations::new(2);
        map.insert(1, "a");
        map.insert(2, "b");
        map.insert(3, "c");
        map.insert(1, "d");
        assert_eq!(map.used(&1).0, Some(&mut "d"));
        map.retain(|key, _| *key != 1);
        assert!(map.used(&1).0.is_none());
    }

    #[test]
    fn aging_makes_room() {
        let mut map = Generations::new(8);
        map.insert(1, ());
        assert_eq!(map.age().len(), 1, "all are young");
        map.insert(1, ());
        map.insert(2, ());
        map.old = map.age();
        map.insert(3, ());
        assert_eq!((map.age().len(), map.len()), (2, 1), "the older go first");
    }
}
