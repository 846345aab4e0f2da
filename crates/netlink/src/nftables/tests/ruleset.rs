//! The constant-size ruleset in both families, as values; writing and reading a whole table.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::Family;
use crate::nftables::*;

/// A whole table as values, in an order that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ruleset {
    pub(super) table: Table,
    pub(super) chains: BTreeSet<Chain>,
    pub(super) sets: BTreeMap<Set, BTreeSet<Element>>,
    pub(super) rules: BTreeMap<Arc<str>, Vec<Rule>>,
}

impl Ruleset {
    pub(super) fn empty(family: Family, name: &str) -> Self {
        Self {
            table: Table::new(TableId::new(family, name)),
            chains: BTreeSet::new(),
            sets: BTreeMap::new(),
            rules: BTreeMap::new(),
        }
    }

    /// One batch that makes it all.
    pub(super) fn batch(&self) -> Batch {
        let mut batch = Batch::new();
        let id = &self.table.id;
        batch.add_table(&self.table);
        for chain in &self.chains {
            batch.add_chain(id, chain);
        }
        for (set, elements) in &self.sets {
            batch.add_set(id, set);
            batch.add_elements(id, &set.name, elements);
        }
        for rule in self.rules.values().flatten() {
            batch.add_rule(id, rule);
        }
        batch
    }

    /// What the kernel holds, without the handles of rules.
    pub(super) fn read(nft: &mut Nft, id: &TableId) -> Self {
        let table = nft.tables(id.family).unwrap().into_iter().find(|table| table.id == *id).unwrap();
        let chains = nft.chains(id).unwrap().into_iter().collect();
        let mut sets = BTreeMap::new();
        for set in nft.sets(id).unwrap() {
            let mut elements = BTreeSet::new();
            nft.elements(id, &set.name, &mut |element| assert!(elements.insert(element))).unwrap();
            sets.insert(set, elements);
        }
        let mut rules: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for rule in nft.rules(id).unwrap() {
            assert!(rule.handle.is_some());
            rules.entry(Arc::clone(&rule.chain)).or_default().push(rule.without_handle());
        }
        Self { table, chains, sets, rules }
    }

    pub(super) fn chain(&mut self, name: &str, attachment: Attachment) {
        self.chains.insert(Chain { name: name.into(), attachment, comment: None });
    }

    pub(super) fn set(&mut self, set: Set, elements: impl IntoIterator<Item = Element>) {
        self.sets.insert(set, elements.into_iter().collect());
    }

    pub(super) fn rule(&mut self, chain: &str, expressions: Vec<Expression>) {
        let chain: Arc<str> = chain.into();
        self.rules.entry(Arc::clone(&chain)).or_default().push(Rule::new(chain, expressions));
    }
}

pub(super) const R: Register = Register::FIRST;

pub(super) fn base(chain_type: ChainType, hook: Hook, priority: i32) -> Attachment {
    Attachment::Base(Base { chain_type, hook, priority })
}

pub(super) fn goto(chain: &str) -> Verdict {
    Verdict::Goto(chain.into())
}

/// Addresses of one family: 10.96.0.n or fd00:10:96::n for services, 10.1.0.n or fd00:10:1::n for endpoints.
pub(super) fn service(family: Family, n: u8) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([10, 96, 0, n]),
        Family::V6 => IpAddr::from([0xfd00, 0x10, 0x96, 0, 0, 0, 0, u16::from(n)]),
    }
}

pub(super) fn endpoint(family: Family, n: u8) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([10, 1, 0, n]),
        Family::V6 => IpAddr::from([0xfd00, 0x10, 1, 0, 0, 0, 0, u16::from(n)]),
    }
}

pub(super) fn source(family: Family) -> Selector {
    match family {
        Family::V4 => Selector::Ipv4Source,
        Family::V6 => Selector::Ipv6Source,
    }
}

pub(super) fn destination(family: Family) -> Selector {
    match family {
        Family::V4 => Selector::Ipv4Destination,
        Family::V6 => Selector::Ipv6Destination,
    }
}

pub(super) fn frontend(family: Family) -> Vec<Selector> {
    vec![destination(family), Selector::Protocol, Selector::DestinationPort]
}

fn is_protocol(protocol: u8) -> [Expression; 2] {
    [Selector::Protocol.load(R), Expression::equal(R, Value::EMPTY.protocol(protocol))]
}

/// Goes on if any of `bits` is set in what `load` gives.
fn any_bit(load: Expression, bits: u32) -> [Expression; 3] {
    [load, Expression::and(R, bits), Expression::not_equal(R, Value::EMPTY.number(0))]
}

/// `dnat to KEY . numgen random mod N map @slots`
pub(super) fn pick(family: Family, endpoints: u32) -> Vec<Expression> {
    let mut key = frontend(family);
    key.push(Selector::Random { modulus: endpoints });
    let mut steps = is_protocol(6).to_vec();
    steps.extend(load_key(&key, R));
    steps.push(Expression::Lookup { set: "slots".into(), from: R, found: Found::Data(R) });
    let port = Some(R.after(u32::from(family.bits()) / 8));
    let (side, choice) = (Side::Destination, PortChoice::Keep);
    steps.push(Expression::Nat { side, family, address: R, port, choice });
    steps
}

/// The ruleset of the measurements, with what surrounds it in real life.
pub(super) fn constant_size(family: Family) -> Ruleset {
    let mut ruleset = Ruleset::empty(family, "switchyard");
    ruleset.table.comment = Comment::new("rules of switchyard");
    add_sets(&mut ruleset, family);
    add_chains(&mut ruleset);
    add_rules(&mut ruleset, family);
    ruleset
}

fn add_sets(ruleset: &mut Ruleset, family: Family) {
    let key = |n, port| Value::EMPTY.address(service(family, n)).protocol(6).port(port);
    let mut frontends = Set::new("frontends", Fields::Typeof(frontend(family)), SetData::Verdict);
    frontends.comment = Comment::new("where services are reached");
    let first =
        Element { comment: Comment::new("ns1/svc1:http"), ..Element::verdict(key(10, 80), goto("pick-3")) };
    ruleset.set(frontends, [first, Element::verdict(key(11, 53), Verdict::Drop)]);

    let mut slot_key = frontend(family);
    slot_key.push(Selector::Random { modulus: 65536 });
    let data = Fields::Typeof(vec![destination(family), Selector::DestinationPort]);
    let slots = Set::new("slots", Fields::Typeof(slot_key), SetData::Value(data));
    let slot = |n: u8| {
        let data = Value::EMPTY.address(endpoint(family, n + 1)).port(8080);
        Element::mapped(key(10, 80).number(u32::from(n)), data)
    };
    ruleset.set(slots, (0..3).map(slot));

    let nodeports = Fields::Typeof(vec![Selector::Protocol, Selector::DestinationPort]);
    let nodeport = Value::EMPTY.protocol(17).port(30053);
    ruleset.set(
        Set::new("nodeports", nodeports, SetData::Verdict),
        [Element::verdict(nodeport, goto("pick-3"))],
    );

    let addresses = match family {
        Family::V4 => DataType::Ipv4Address,
        Family::V6 => DataType::Ipv6Address,
    };
    let mut cluster_ips = Set::new("cluster-ips", Fields::Type(vec![addresses]), SetData::None);
    cluster_ips.comment = Comment::new("active cluster IPs");
    ruleset.set(cluster_ips, [10, 11].map(|n| Element::new(Value::EMPTY.address(service(family, n)))));

    let hairpin = vec![addresses, addresses, DataType::Protocol, DataType::Port];
    let pair = |n| Value::EMPTY.address(endpoint(family, n)).address(endpoint(family, n));
    ruleset.set(
        Set::new("hairpin", Fields::Type(hairpin), SetData::None),
        [Element::new(pair(1).protocol(6).port(8080))],
    );

    let mut sticky = Set::new("sticky", Fields::Typeof(vec![source(family)]), SetData::None);
    sticky.flags = SetFlags::DYNAMIC | SetFlags::TIMEOUT;
    sticky.timeout = Some(Duration::from_secs(3 * 3600));
    sticky.size = Some(65535);
    ruleset.set(sticky, []);
}

fn add_chains(ruleset: &mut Ruleset) {
    for name in ["pick-3", "services", "masquerading", "checks"] {
        ruleset.chain(name, Attachment::Regular);
    }
    ruleset.chains.insert(Chain {
        name: "refuse".into(),
        attachment: Attachment::Regular,
        comment: Comment::new("no endpoints"),
    });
    ruleset.chain("nat-prerouting", base(ChainType::Nat, Hook::Prerouting, -100));
    ruleset.chain("nat-output", base(ChainType::Nat, Hook::Output, -100));
    ruleset.chain("nat-postrouting", base(ChainType::Nat, Hook::Postrouting, 100));
    ruleset.chain("filter-forward", base(ChainType::Filter, Hook::Forward, 0));
    ruleset.chain("filter-before-dnat", base(ChainType::Filter, Hook::Prerouting, -110));
}

fn add_rules(ruleset: &mut Ruleset, family: Family) {
    let to = |chain: &str| Expression::Verdict(Verdict::Jump(chain.into()));
    let is_new = any_bit(Expression::Ct { key: CtKey::State, to: R }, ct_state::NEW);
    let vmap = |key: &[Selector], set: &str| {
        let mut steps = load_key(key, R);
        steps.push(Expression::Lookup { set: set.into(), from: R, found: Found::Verdict });
        steps
    };
    for chain in ["nat-prerouting", "nat-output"] {
        ruleset.rule(chain, vec![to("services")]);
    }
    ruleset.rule("nat-postrouting", vec![to("masquerading")]);
    for chain in ["filter-forward", "filter-before-dnat"] {
        ruleset.rule(chain, [&is_new[..], &[to("checks")]].concat());
    }
    ruleset.rule("services", vmap(&frontend(family), "frontends"));
    let is_local = [
        Expression::AddressType { of: Side::Destination, to: R },
        Expression::equal(R, Value::EMPTY.number(address_type::LOCAL)),
    ];
    let nodeports = vmap(&[Selector::Protocol, Selector::DestinationPort], "nodeports");
    ruleset.rule("services", [&is_local[..], &nodeports].concat());
    ruleset.rule("pick-3", pick(family, 3));
    if let Some(rule) = ruleset.rules.get_mut("pick-3").and_then(|rules| rules.first_mut()) {
        rule.comment = Comment::new("three endpoints");
    }

    let load_mark = Expression::Meta { key: MetaKey::Mark, to: R };
    let set_mark = Expression::SetMeta { key: MetaKey::Mark, from: R };
    let masquerade = Expression::Masquerade(PortChoice::FullyRandom);
    let marked = any_bit(load_mark.clone(), 0x4000);
    let unmark = [load_mark, Expression::xor(R, 0x4000), set_mark, masquerade.clone()];
    ruleset.rule("masquerading", [&marked[..], &unmark].concat());
    let is_dnat = any_bit(Expression::Ct { key: CtKey::Status, to: R }, CT_STATUS_DNAT);
    let pair = [source(family), destination(family), Selector::Protocol, Selector::DestinationPort];
    let is_hairpin = Expression::Lookup { set: "hairpin".into(), from: R, found: Found::Member };
    ruleset.rule("masquerading", [&is_dnat[..], &load_key(&pair, R), &[is_hairpin, masquerade]].concat());

    let reject = Expression::Reject(Reject::port_unreachable(family));
    ruleset.rule("refuse", vec![reject.clone()]);
    let is_cluster_ip = Expression::Lookup { set: "cluster-ips".into(), from: R, found: Found::Member };
    ruleset.rule("checks", vec![destination(family).load(R), is_cluster_ip, reject]);
}
