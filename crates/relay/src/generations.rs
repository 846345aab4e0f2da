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

    /// The value. It does not count as used.
    pub(crate) fn peek<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.young.get(key).or_else(|| self.old.get(key))
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

    /// Those that were not used since the last change of generations. If there are none, the generations change.
    pub(crate) fn unused(&mut self) -> impl Iterator<Item = (&K, &V)> {
        if self.old.is_empty() {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.iter()
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
    fn who_was_not_used_lately_is_known() {
        let mut map = Generations::new(8);
        map.insert(1, ());
        map.insert(2, ());
        assert_eq!(map.unused().count(), 2, "the generations change");
        map.used(&1);
        map.insert(3, ());
        assert_eq!(map.unused().map(|(key, ())| *key).collect::<Vec<_>>(), [2]);
        assert!(map.peek(&2).is_some() && map.peek(&3).is_some() && map.peek(&4).is_none());
        assert_eq!(map.unused().count(), 1, "looking is not using");
        assert_eq!(map.len(), 3);
    }
}
