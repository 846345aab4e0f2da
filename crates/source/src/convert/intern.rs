//! One copy of every text that many objects share.

use std::collections::HashSet;
use std::sync::Arc;

/// Below this size a sweep is not worth its time.
const FIRST_SWEEP: usize = 1024;

/// Shares equal texts. Texts that nobody else holds any more are dropped as the set grows, so churn of nodes and
/// namespaces does not fill the memory.
#[derive(Debug)]
pub(crate) struct Interner {
    texts: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Default for Interner {
    fn default() -> Self {
        Self { texts: HashSet::new(), sweep_at: FIRST_SWEEP }
    }
}

impl Interner {
    /// The shared copy of a text.
    pub(crate) fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        if self.texts.len() >= self.sweep_at {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = FIRST_SWEEP.max(self.texts.len() * 2);
        }
        let text = Arc::<str>::from(text);
        self.texts.insert(text.clone());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_and_unused_ones_go_away() {
        let mut interner = Interner::default();
        let kept = interner.intern("kept");
        assert!(Arc::ptr_eq(&kept, &interner.intern("kept")));
        for n in 0..10 * FIRST_SWEEP {
            interner.intern(&n.to_string());
        }
        assert!(interner.texts.len() <= FIRST_SWEEP + 1);
        assert!(Arc::ptr_eq(&kept, &interner.intern("kept")));
    }
}
