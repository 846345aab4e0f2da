//! The features, each as objects that only a kernel with it accepts.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use switchyard_model::Family;
use switchyard_netlink::nftables::{
    Base, Batch, CT_STATUS_DNAT, Chain, ChainType, Comment, CtKey, DynamicChange, Element, Expression,
    Extent, Fields, Found, Hook, MetaKey, PortChoice, Register, Reject, Rule, Selector, Set, SetData,
    SetFlags, Side, Table, TableId, Value, Verdict, address_type, ct_state, load_key,
};

use crate::nft::sets::{destination, source};
use crate::nft::wire;

/// The table that never comes to be.
pub(super) const TABLE: &str = "switchyard-probe";
const FIRST: Register = Register::FIRST;

/// Something that this mode needs of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Tables of the family with filter chains, and packet marks.
    Tables,
    /// State and status of connections.
    Connections,
    /// Maps from address, protocol and port to a chain.
    VerdictMaps,
    /// Chains that change destinations.
    Nat,
    /// Random slots.
    Random,
    /// Masquerading with random ports.
    Masquerade,
    /// Refusals with ICMP.
    Reject,
    /// Asking the routing table whether an address is local.
    LocalAddresses,
    /// Sets that rules write to, whose elements go after some time.
    StickyClients,
    /// Ranges in keys of several parts.
    SourceRanges,
    /// Removing a chain in the transaction that removes the last element that leads to it.
    Removal,
}

impl Feature {
    /// All of them; the first is needed by all others.
    pub const ALL: [Self; 11] = [
        Self::Tables,
        Self::Connections,
        Self::VerdictMaps,
        Self::Nat,
        Self::Random,
        Self::Masquerade,
        Self::Reject,
        Self::LocalAddresses,
        Self::StickyClients,
        Self::SourceRanges,
        Self::Removal,
    ];

    /// The first release of Linux that has it.
    pub fn since(self) -> &'static str {
        match self {
            Self::Tables | Self::Connections | Self::Nat => "3.13",
            Self::Reject => "3.14",
            Self::Masquerade => "3.18",
            Self::VerdictMaps | Self::StickyClients => "4.1",
            Self::Random => "4.9",
            Self::LocalAddresses => "4.10",
            Self::Removal => "4.12",
            Self::SourceRanges => "5.6",
        }
    }

    /// The modules that have it, where it is not built in.
    pub fn modules(self, family: Family) -> &'static [&'static str] {
        match (self, family) {
            (
                Self::Tables | Self::VerdictMaps | Self::StickyClients | Self::SourceRanges | Self::Removal,
                _,
            ) => &["nf_tables"],
            (Self::Connections, _) => &["nft_ct"],
            (Self::Nat, _) => &["nft_chain_nat", "nft_nat"],
            (Self::Random, _) => &["nft_numgen"],
            (Self::Masquerade, _) => &["nft_chain_nat", "nft_masq"],
            (Self::Reject, Family::V4) => &["nft_reject_ipv4"],
            (Self::Reject, Family::V6) => &["nft_reject_ipv6"],
            (Self::LocalAddresses, Family::V4) => &["nft_fib_ipv4"],
            (Self::LocalAddresses, Family::V6) => &["nft_fib_ipv6"],
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tables => "tables with filter chains",
            Self::Connections => "state of connections (ct)",
            Self::VerdictMaps => "maps from keys of several parts to verdicts",
            Self::Nat => "destination NAT",
            Self::Random => "random numbers (numgen)",
            Self::Masquerade => "masquerading",
            Self::Reject => "reject",
            Self::LocalAddresses => "types of addresses (fib)",
            Self::StickyClients => "dynamic sets with timeouts",
            Self::SourceRanges => "ranges in keys of several parts",
            Self::Removal => "removing a chain together with the elements that lead to it",
        })
    }
}

/// A batch that only a kernel with all these features for all these families accepts.
pub(super) fn batch(families: &[Family], features: &[Feature]) -> Batch {
    families.iter().fold(Batch::new(), |batch, family| with(batch, *family, features))
}

fn with(mut batch: Batch, family: Family, features: &[Feature]) -> Batch {
    let id = TableId::new(wire(family), TABLE);
    let comment = Comment::new("what this kernel can do; never written");
    batch.add_table(&Table { comment, is_dormant: true, ..Table::new(id.clone()) });
    let mut draft = Draft { batch, id, family };
    features.iter().for_each(|feature| draft.add(*feature));
    draft.batch
}

/// A batch being written.
struct Draft {
    batch: Batch,
    id: TableId,
    family: Family,
}

impl Draft {
    fn add(&mut self, feature: Feature) {
        match feature {
            Feature::Tables => self.tables(),
            Feature::Connections => self.connections(),
            Feature::VerdictMaps => self.verdict_maps(),
            Feature::Nat => self.nat(),
            Feature::Random => self.random(),
            Feature::Masquerade => self.masquerade(),
            Feature::Reject => {
                let reject = Expression::Reject(Reject::port_unreachable(wire(self.family)));
                self.chain("reject-probe", vec![reject]);
            }
            Feature::LocalAddresses => self.local_addresses(),
            Feature::StickyClients => self.sticky_clients(),
            Feature::SourceRanges => self.source_ranges(),
            Feature::Removal => self.removal(),
        }
    }

    fn tables(&mut self) {
        use Hook::{Forward, Input, Output, Prerouting};
        for (name, hook) in [("in", Input), ("pass", Forward), ("out", Output), ("before", Prerouting)] {
            let mark = Expression::Meta { key: MetaKey::Mark, to: FIRST };
            let set = Expression::SetMeta { key: MetaKey::Mark, from: FIRST };
            self.base(name, ChainType::Filter, hook, vec![mark, Expression::or(FIRST, 1), set]);
        }
    }

    fn connections(&mut self) {
        let bit = |key, bit| {
            let load = Expression::Ct { key, to: FIRST };
            [load, Expression::and(FIRST, bit), Expression::not_equal(FIRST, Value::EMPTY.number(0))]
        };
        let new = bit(CtKey::State, ct_state::NEW);
        let translated = bit(CtKey::Status, CT_STATUS_DNAT);
        self.chain("ct-probe", [new, translated].concat());
    }

    fn verdict_maps(&mut self) {
        self.chain("target", Vec::new());
        let key = self.frontend();
        self.set(&Set::new("verdicts", Fields::Typeof(key.clone()), SetData::Verdict));
        let element = Element::verdict(self.key(), Verdict::Goto("target".into()));
        self.batch.add_elements(&self.id, "verdicts", [&element]);
        let mut steps = load_key(&key, FIRST);
        steps.push(Expression::Lookup { set: "verdicts".into(), from: FIRST, found: Found::Verdict });
        self.chain("by-map", steps);
        // The longest key of a set without data: two addresses, protocol, port.
        let pair = vec![
            source(self.family),
            destination(self.family),
            Selector::Protocol,
            Selector::DestinationPort,
        ];
        self.set(&Set::new("pairs", Fields::Typeof(pair.clone()), SetData::None));
        let mut steps = load_key(&pair, FIRST);
        steps.push(Expression::Lookup { set: "pairs".into(), from: FIRST, found: Found::Member });
        steps.push(Expression::Verdict(Verdict::Drop));
        self.chain("by-set", steps);
    }

    fn nat(&mut self) {
        let steps = vec![
            Selector::Protocol.load(FIRST),
            Expression::equal(FIRST, Value::EMPTY.protocol(6)),
            Expression::Load { value: Value::EMPTY.address(self.address()), to: FIRST },
            Expression::Load { value: Value::EMPTY.port(80), to: self.port_register() },
            self.translate(),
        ];
        self.base("nat-before", ChainType::Nat, Hook::Prerouting, steps.clone());
        self.base("nat-out", ChainType::Nat, Hook::Output, steps);
    }

    fn random(&mut self) {
        let mut key = self.frontend();
        key.push(Selector::Random { modulus: 1 << 16 });
        let to = vec![destination(self.family), Selector::DestinationPort];
        self.set(&Set::new("slots", Fields::Typeof(key), SetData::Value(Fields::Typeof(to))));
        let data = Value::EMPTY.address(self.address()).port(8080);
        self.batch.add_elements(&self.id, "slots", [&Element::mapped(self.key().number(1), data)]);
        let mut steps = load_key(&self.frontend(), FIRST);
        let parts = Fields::Typeof(self.frontend()).length();
        steps.push(Expression::Random { modulus: 3, offset: 1, to: FIRST.after(parts) });
        steps.push(Expression::Lookup { set: "slots".into(), from: FIRST, found: Found::Data(FIRST) });
        self.chain("pick-probe", steps);
    }

    fn masquerade(&mut self) {
        let masquerade = Expression::Masquerade(PortChoice::FullyRandom);
        self.base("nat-after", ChainType::Nat, Hook::Postrouting, vec![masquerade]);
    }

    fn local_addresses(&mut self) {
        let is_local = |of| {
            let local = Value::EMPTY.number(address_type::LOCAL);
            [Expression::AddressType { of, to: FIRST }, Expression::equal(FIRST, local)]
        };
        let steps = [is_local(Side::Source), is_local(Side::Destination)].concat();
        // The kernel allows the question only where the answer is known.
        self.base("fib-probe", ChainType::Filter, Hook::Prerouting, steps);
    }

    fn sticky_clients(&mut self) {
        let client = source(self.family);
        self.set(&Set {
            flags: SetFlags::DYNAMIC | SetFlags::TIMEOUT,
            timeout: Some(Duration::from_secs(10_800)),
            size: Some(1 << 16),
            ..Set::new("clients", Fields::Typeof(vec![client]), SetData::None)
        });
        let update = Expression::Dynamic {
            set: "clients".into(),
            change: DynamicChange::Update,
            key: FIRST,
            data: None,
            timeout: None,
        };
        self.chain("sticky-probe", vec![client.load(FIRST), update]);
    }

    fn source_ranges(&mut self) {
        let mut key = self.frontend();
        key.push(source(self.family));
        let set = Set::new("ranges", Fields::Typeof(key.clone()), SetData::None);
        self.set(&Set { flags: SetFlags::INTERVAL, ..set });
        let (first, last) = match self.family {
            Family::V4 => (IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::BROADCAST)),
            Family::V6 => (IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::from([0xff; 16]))),
        };
        let through = Extent::Through(self.key().address(last));
        let range = Element { extent: through, ..Element::new(self.key().address(first)) };
        self.batch.add_elements(&self.id, "ranges", [&range]);
        let mut steps = load_key(&key, FIRST);
        steps.push(Expression::Lookup { set: "ranges".into(), from: FIRST, found: Found::NotMember });
        self.chain("ranges-probe", steps);
    }

    fn removal(&mut self) {
        self.chain("leaves", Vec::new());
        self.set(&Set::new("leads", Fields::Typeof(self.frontend()), SetData::Verdict));
        let element = Element::verdict(self.key(), Verdict::Goto("leaves".into()));
        self.batch.add_elements(&self.id, "leads", [&element]);
        self.batch.delete_elements(&self.id, "leads", [&element]);
        self.batch.delete_chain(&self.id, "leaves");
    }

    fn base(&mut self, name: &str, chain_type: ChainType, hook: Hook, steps: Vec<Expression>) {
        let priority = match chain_type {
            ChainType::Filter => 0,
            ChainType::Nat if hook == Hook::Postrouting => 100,
            ChainType::Nat => -100,
        };
        self.batch.add_chain(&self.id, &Chain::base(name, Base { chain_type, hook, priority }));
        self.batch.add_rule(&self.id, &Rule::new(name, steps));
    }

    fn chain(&mut self, name: &str, steps: Vec<Expression>) {
        self.batch.add_chain(&self.id, &Chain::regular(name));
        if !steps.is_empty() {
            self.batch.add_rule(&self.id, &Rule::new(name, steps));
        }
    }

    fn set(&mut self, set: &Set) {
        self.batch.add_set(&self.id, set);
    }

    fn frontend(&self) -> Vec<Selector> {
        vec![destination(self.family), Selector::Protocol, Selector::DestinationPort]
    }

    fn key(&self) -> Value {
        Value::EMPTY.address(self.address()).protocol(6).port(80)
    }

    fn address(&self) -> IpAddr {
        match self.family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        }
    }

    fn port_register(&self) -> Register {
        FIRST.after(destination(self.family).data_type().length())
    }

    fn translate(&self) -> Expression {
        Expression::Nat {
            side: Side::Destination,
            family: wire(self.family),
            address: FIRST,
            port: Some(self.port_register()),
            choice: PortChoice::Keep,
        }
    }
}
