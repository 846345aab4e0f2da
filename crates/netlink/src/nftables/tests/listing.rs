//! Stock `nft` lists what we write, and what `nft` writes from the same text reads as the same values.

use super::ruleset::{Ruleset, constant_size};
use crate::Family;
use crate::nftables::*;
use crate::testing::{exec, namespace_or_skip};

/// A listing with the elements of each set in order: the kernel tells them in the order of a hash with a random seed.
fn in_order(listing: &str) -> String {
    const START: &str = "elements = { ";
    let mut ordered = String::new();
    let mut rest = listing;
    while let Some((before, after)) = rest.split_once(START) {
        let (list, after) = after.split_once(" }").unwrap();
        let mut elements: Vec<_> = list.split(',').map(str::trim).collect();
        elements.sort_unstable();
        ordered.extend([before, START, &elements.join(",\n\t\t\t     "), " }"]);
        rest = after;
    }
    ordered + rest
}

/// Other versions of `nft` choose other words here and there; the goldens are in those of 1.0.6.
fn has_the_words_of_the_goldens() -> bool {
    exec("nft", &["--version"]).contains("v1.0.6")
}

fn golden_path(family: Family) -> String {
    let name = match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    format!("{}/src/nftables/tests/{name}.nft", env!("CARGO_MANIFEST_DIR"))
}

fn golden(family: Family) -> String {
    std::fs::read_to_string(golden_path(family)).unwrap()
}

#[test]
fn stock_nft_lists_the_ruleset_readably_and_we_read_it_back() {
    for family in [Family::V4, Family::V6] {
        let Some(namespace) = namespace_or_skip() else { return };
        namespace
            .run(|| {
                let ruleset = constant_size(family);
                let mut nft = Nft::open().unwrap();
                nft.commit(&ruleset.batch()).unwrap();
                let listing = in_order(&exec("nft", &["list", "ruleset"]));
                if std::env::var_os("BLESS").is_some() {
                    std::fs::write(golden_path(family), &listing).unwrap();
                }
                assert!(listing.contains("numgen random mod 65536 : "), "{listing}");
                if has_the_words_of_the_goldens() {
                    assert_eq!(listing, golden(family));
                }
                let json = exec("nft", &["--json", "list", "ruleset"]);
                assert!(
                    json.contains("\"numgen\": {\"mode\": \"random\", \"mod\": 3, \"offset\": 0}"),
                    "{json}"
                );
                assert_eq!(Ruleset::read(&mut nft, &ruleset.table.id), ruleset);
            })
            .unwrap();
    }
}

#[test]
fn the_same_text_loaded_by_nft_reads_as_the_same_values() {
    for family in [Family::V4, Family::V6] {
        let Some(namespace) = namespace_or_skip() else { return };
        namespace
            .run(|| {
                exec("nft", &["-f", &golden_path(family)]);
                let wanted = constant_size(family);
                assert_eq!(Ruleset::read(&mut Nft::open().unwrap(), &wanted.table.id), wanted);
            })
            .unwrap();
    }
}

#[test]
fn the_longest_comments_are_listed_and_what_the_kernel_cannot_keep_is_refused() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let long = Comment::new(&"x".repeat(200));
            let id = TableId::new(Family::V4, "t");
            let mut chain = Chain::regular("c");
            chain.comment.clone_from(&long);
            let mut set = Set::new("s", Fields::Type(vec![DataType::Port]), SetData::None);
            set.comment.clone_from(&long);
            let element = Element { comment: long.clone(), ..Element::new(Value::EMPTY.port(80)) };
            let rule = Rule { comment: long.clone(), ..Rule::new("c", vec![Expression::Counter]) };
            let mut batch = Batch::new();
            batch.add_table(&Table { comment: long.clone(), ..Table::new(id.clone()) });
            batch.add_chain(&id, &chain);
            batch.add_set(&id, &set);
            batch.add_elements(&id, "s", [&element]);
            batch.add_rule(&id, &rule);
            let mut nft = Nft::open().unwrap();
            nft.commit(&batch).unwrap();
            let listing = exec("nft", &["list", "ruleset"]);
            assert_eq!(listing.matches(&format!("comment \"{}\"", "x".repeat(128))).count(), 5, "{listing}");
            assert_eq!(nft.sets(&id).unwrap(), [set]);
            assert_eq!(nft.chains(&id).unwrap(), [chain]);

            // The names of many parts and a long comment are more than the kernel keeps for one set.
            let mut wide = Set::new("w", Fields::Typeof(vec![Selector::Ipv4Source; 7]), SetData::None);
            wide.comment = long;
            let mut batch = Batch::new();
            batch.add_set(&id, &wide);
            assert!(matches!(nft.commit(&batch), Err(CommitError::Unencodable { .. })));
        })
        .unwrap();
}
