//! What somebody who asks may see: all that the loop knows, for as long as a question is answered.

use std::collections::BTreeMap;

use switchyard_model::{Complaint, Family, ObjectName};

use super::FamilySync;
use crate::ledger::Ledger;

/// See the module.
pub struct View<'a> {
    /// Each family that this node has.
    pub families: &'a [FamilySync],
    /// What the last syncs did.
    pub ledger: &'a Ledger,
    /// What is wrong with objects.
    pub complaints: &'a BTreeMap<ObjectName, Vec<Complaint>>,
    /// Whether the first lists have been taken.
    pub is_started: bool,
}

impl View<'_> {
    /// The sync of a family, if this node has it.
    pub fn family(&self, family: Family) -> Option<&FamilySync> {
        self.families.iter().find(|sync| sync.family() == family)
    }
}
