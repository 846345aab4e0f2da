//! nf_tables as a whole: what we write, the kernel and stock `nft` understand, and what is there, we read.

mod bytes;
mod commits;
mod dumps;
mod find;
mod listing;
mod malformed;
mod roundtrip;
mod ruleset;

use super::*;
use crate::testing::{exec, namespace_or_skip};

#[test]
fn only_the_named_table_goes() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let nft = |args: &str| exec("nft", &args.split(' ').collect::<Vec<_>>());
            nft("add table ip kube-proxy");
            nft("add chain ip kube-proxy services");
            nft("add table ip6 kube-proxy");
            nft("add table ip other");
            assert_eq!(delete_table(Family::V4, "kube-proxy").unwrap(), Removed::Yes);
            assert_eq!(delete_table(Family::V4, "kube-proxy").unwrap(), Removed::Absent);
            assert_eq!(nft("list tables"), "table ip6 kube-proxy\ntable ip other\n");
        })
        .unwrap();
}
