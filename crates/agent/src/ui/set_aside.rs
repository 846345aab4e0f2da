//! What was set aside, for its page: the first of it, and how much there is.

use switchyard_serve::ui::SetAsidePage;

use crate::set_aside::{behind, total};
use crate::sync::View;

/// Rows that a page holds.
const ROWS: usize = 200;

/// See the module.
pub(super) fn page(view: &View<'_>) -> SetAsidePage {
    let items = behind(view, None).take(ROWS).map(|listed| listed.item).collect();
    SetAsidePage { items, total: total(view) }
}
