//! Rules as kernel expressions. The forms are those that `nft` itself writes, so that it can list them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use switchyard_model::Family;
use switchyard_netlink::nftables::{
    Attachment, Base as KernelBase, CT_STATUS_DNAT, Chain as KernelChain, ChainType, Comment, Comparison,
    CtKey, DynamicChange, Expression, Found, Hook as KernelHook, MetaKey, PortChoice, Register, Reject,
    Rule as KernelRule, Selector, Side, Value, address_type, ct_state,
};
use switchyard_plan::nft::base::{Base, Chain, Hook, Kind};
use switchyard_plan::nft::rule::{Field, Is, Rule, Statement, Verdict};

use super::sets::{destination, encode_verdict, source};
use super::wire;

/// A chain without its rules.
pub(super) fn chain(chain: &Chain) -> KernelChain {
    let attachment = chain.base.map_or(Attachment::Regular, |base| Attachment::Base(hook(base)));
    KernelChain { name: chain.name.as_str().into(), attachment, comment: None }
}

fn hook(base: Base) -> KernelBase {
    KernelBase {
        chain_type: match base.kind {
            Kind::Filter => ChainType::Filter,
            Kind::Nat => ChainType::Nat,
        },
        hook: match base.hook {
            Hook::Prerouting => KernelHook::Prerouting,
            Hook::Input => KernelHook::Input,
            Hook::Forward => KernelHook::Forward,
            Hook::Output => KernelHook::Output,
            Hook::Postrouting => KernelHook::Postrouting,
        },
        priority: base.priority,
    }
}

/// The rules of a chain.
pub(super) fn rules(chain: &Chain, family: Family) -> Vec<KernelRule> {
    let name: Arc<str> = chain.name.as_str().into();
    chain.rules.iter().flat_map(expand).map(|rule| encode(&rule, &name, family)).collect()
}

/// A random choice becomes one rule per verdict: the first of n with odds of one in n, and so on. `nft` would make a map
/// without a name for it, which only works within one transaction.
fn expand(rule: &Rule) -> Vec<Piece> {
    let Some((Statement::RandomVerdict(verdicts), before)) = rule.statements.split_last() else {
        return vec![Piece { statements: rule.statements.clone(), one_in: None, comment: rule.comment }];
    };
    let piece = |(i, verdict): (usize, &Verdict)| {
        let mut statements = before.to_vec();
        statements.push(Statement::Verdict(verdict.clone()));
        let left = u32::try_from(verdicts.len() - i).unwrap_or(u32::MAX);
        Piece { statements, one_in: (left > 1).then_some(left), comment: rule.comment }
    };
    verdicts.iter().enumerate().map(piece).collect()
}

/// A rule of the kernel.
struct Piece {
    statements: Vec<Statement>,
    /// Only one packet in so many gets to the verdict.
    one_in: Option<u32>,
    comment: Option<&'static str>,
}

fn encode(rule: &Piece, chain: &Arc<str>, family: Family) -> KernelRule {
    let odds = rule.one_in.into_iter().flat_map(|n| {
        let random = Expression::Random { modulus: n, offset: 0, to: FIRST };
        [random, Expression::equal(FIRST, Value::EMPTY.number(0))]
    });
    let statements = rule.statements.iter().flat_map(|s| statement(s, family));
    let expressions = odds.chain(statements).collect();
    KernelRule { comment: rule.comment.and_then(Comment::new), ..KernelRule::new(chain.clone(), expressions) }
}

const FIRST: Register = Register::FIRST;

fn statement(statement: &Statement, family: Family) -> Vec<Expression> {
    match statement {
        Statement::New => bits(Expression::Ct { key: CtKey::State, to: FIRST }, ct_state::NEW),
        Statement::Translated => bits(Expression::Ct { key: CtKey::Status, to: FIRST }, CT_STATUS_DNAT),
        Statement::Priority(class) => vec![
            Expression::Meta { key: MetaKey::Priority, to: FIRST },
            Expression::equal(FIRST, Value::EMPTY.number(*class)),
        ],
        Statement::Marked(mark) => bits(Expression::Meta { key: MetaKey::Mark, to: FIRST }, *mark),
        Statement::Protocol(protocol) => vec![
            Selector::Protocol.load(FIRST),
            Expression::equal(FIRST, Value::EMPTY.protocol(protocol.number())),
        ],
        Statement::SourceIn(is, range) => in_range(source(family), *is, range),
        Statement::DestinationIn(is, range) => in_range(destination(family), *is, range),
        Statement::Interface(is, name) => interface(*is, name),
        Statement::SourceLocal => local(Side::Source),
        Statement::DestinationLocal => local(Side::Destination),
        Statement::In(is, fields, set) => {
            let found = match is {
                Is::Yes => Found::Member,
                Is::Not => Found::NotMember,
            };
            look_up(fields, family, set.as_str(), found)
        }
        Statement::Lookup(fields, map) => look_up(fields, family, map.as_str(), Found::Verdict),
        Statement::OrMark(mark) => set_mark(Expression::or(FIRST, *mark)),
        Statement::XorMark(mark) => set_mark(Expression::xor(FIRST, *mark)),
        Statement::DnatByMap(fields, map) => {
            let mut all = look_up(fields, family, map.as_str(), Found::Data(FIRST));
            all.push(translate(family));
            all
        }
        Statement::Dnat(to) => vec![
            Expression::Load { value: Value::EMPTY.address(to.ip()), to: FIRST },
            Expression::Load { value: Value::EMPTY.port(to.port()), to: port_register(family) },
            translate(family),
        ],
        // Rules with a choice are expanded before they come here.
        Statement::RandomVerdict(_) => Vec::new(),
        Statement::Remember(set) => vec![
            source(family).load(FIRST),
            Expression::Dynamic {
                set: set.as_str().into(),
                change: DynamicChange::Update,
                key: FIRST,
                data: None,
                timeout: None,
            },
        ],
        Statement::Masquerade => vec![Expression::Masquerade(PortChoice::FullyRandom)],
        Statement::Reject => vec![Expression::Reject(Reject::port_unreachable(wire(family)))],
        Statement::Verdict(verdict) => vec![Expression::Verdict(encode_verdict(verdict))],
    }
}

/// Goes on if one of the bits is set.
fn bits(load: Expression, mask: u32) -> Vec<Expression> {
    vec![load, Expression::and(FIRST, mask), Expression::not_equal(FIRST, Value::EMPTY.number(0))]
}

fn comparison(is: Is) -> Comparison {
    match is {
        Is::Yes => Comparison::Equal,
        Is::Not => Comparison::NotEqual,
    }
}

fn in_range(field: Selector, is: Is, range: &IpNet) -> Vec<Expression> {
    let mut all = vec![field.load(FIRST)];
    if range.prefix_len() < range.max_prefix_len() {
        let zero: IpAddr = match range {
            IpNet::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpNet::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let (mask, xor) = (Value::EMPTY.address(range.netmask()), Value::EMPTY.address(zero));
        all.push(Expression::Bitwise { from: FIRST, to: FIRST, mask, xor });
    }
    let value = Value::EMPTY.address(range.network());
    all.push(Expression::Compare { from: FIRST, comparison: comparison(is), value });
    all
}

/// A trailing `*` stands for anything: then only the beginning is compared.
fn interface(is: Is, name: &str) -> Vec<Expression> {
    let value = match name.strip_suffix('*') {
        Some(prefix) => Value::new(prefix.as_bytes()),
        None => Value::EMPTY.interface(name),
    };
    vec![
        Expression::Meta { key: MetaKey::InputInterface, to: FIRST },
        Expression::Compare { from: FIRST, comparison: comparison(is), value },
    ]
}

fn local(of: Side) -> Vec<Expression> {
    vec![
        Expression::AddressType { of, to: FIRST },
        Expression::equal(FIRST, Value::EMPTY.number(address_type::LOCAL)),
    ]
}

fn set_mark(change: Expression) -> Vec<Expression> {
    vec![
        Expression::Meta { key: MetaKey::Mark, to: FIRST },
        change,
        Expression::SetMeta { key: MetaKey::Mark, from: FIRST },
    ]
}

/// Loads fields one after the other, as `nft` lays a concatenation out, and looks them up.
fn look_up(fields: &[Field], family: Family, set: &str, found: Found) -> Vec<Expression> {
    let mut next = FIRST;
    let mut all: Vec<Expression> = Vec::with_capacity(fields.len() + 1);
    for field in fields {
        let (load, length) = match field {
            Field::Source => load(source(family), next),
            Field::Destination => load(destination(family), next),
            Field::Protocol => load(Selector::Protocol, next),
            Field::Port => load(Selector::DestinationPort, next),
            Field::RandomSlot { modulus, offset } => {
                (Expression::Random { modulus: *modulus, offset: *offset, to: next }, 4)
            }
        };
        all.push(load);
        next = next.after(length);
    }
    all.push(Expression::Lookup { set: set.into(), from: FIRST, found });
    all
}

fn load(selector: Selector, to: Register) -> (Expression, u32) {
    (selector.load(to), selector.data_type().length())
}

fn port_register(family: Family) -> Register {
    FIRST.after(destination(family).data_type().length())
}

fn translate(family: Family) -> Expression {
    Expression::Nat {
        side: Side::Destination,
        family: wire(family),
        address: FIRST,
        port: Some(port_register(family)),
        choice: PortChoice::Keep,
    }
}
