//! Virtual servers and addresses of one family in the kernel: reads them, and does what a plan says, step by step.
//!
//! Invariants
//! - Virtual servers that are not wanted are listed without their destinations, and never changed here unless a step says so.
//! - What is gone already counts as removed, what is there already as added: others may have been faster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;
use switchyard_model::{Family, Protocol, ServicePortName};
use switchyard_netlink::NetlinkError;
use switchyard_netlink::ipvs::{
    Command, Destination, Forwarding, Ipvs, Listed, Persistence, Service, ServiceFlags, ServiceId,
};
use switchyard_netlink::route::{LinkIndex, LocalAddress, Routes, Scope};
use switchyard_plan::ipvs::planner::{HeldDestination, HeldServer};
use switchyard_plan::ipvs::steps::{Op, Step};
use switchyard_plan::ipvs::{Options, Server};

use super::LINK;
use super::retired::Retired;
use crate::nft::writer::Failed;
use crate::report::{Failure, Report};

/// The share of every destination.
const WEIGHT: u32 = 1;

/// Addresses of this node.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// Those of our link.
    pub(super) on_link: BTreeSet<IpAddr>,
    /// Those of other links, without loopback and addresses that only a link knows.
    pub(super) own: BTreeSet<IpAddr>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Kernel {
    ipvs: Ipvs,
    routes: Routes,
    family: Family,
    link: Option<LinkIndex>,
}

impl Kernel {
    pub(super) fn new(ipvs: Ipvs, routes: Routes, family: Family) -> Self {
        Self { ipvs, routes, family, link: None }
    }

    /// Makes the link if it is gone, and lists addresses.
    pub(super) fn addresses(&mut self) -> Result<Addresses, NetlinkError> {
        let link = match self.routes.link_index(LINK) {
            Err(NetlinkError::Missing { .. }) => {
                self.routes.create_dummy(LINK)?;
                self.routes.link_index(LINK)?
            }
            found => found?,
        };
        self.link = Some(link);
        Ok(sort(&self.routes.addresses()?, link, self.family))
    }

    /// Addresses, without making the link: `None` if there is none.
    pub(super) fn addresses_as_they_are(&mut self) -> Result<Option<Addresses>, NetlinkError> {
        match self.routes.link_index(LINK) {
            Err(NetlinkError::Missing { .. }) => Ok(None),
            found => Ok(Some(sort(&self.routes.addresses()?, found?, self.family))),
        }
    }

    /// All virtual servers of the family; with destinations if `is_wanted`.
    pub(super) fn servers(
        &mut self,
        is_wanted: impl Fn(&Server) -> bool,
    ) -> Result<BTreeMap<Server, HeldServer>, NetlinkError> {
        let mut servers = BTreeMap::new();
        for service in self.ipvs.services()? {
            let Some(server) = server(service.id).filter(|s| Family::of(s.address) == self.family) else {
                continue;
            };
            let destinations =
                if is_wanted(&server) { self.ipvs.destinations(service.id)? } else { Vec::new() };
            let held = HeldServer {
                options: options(&service),
                destinations: destinations
                    .iter()
                    .map(|listed| (listed.destination.at, soundness(listed)))
                    .collect(),
            };
            servers.insert(server, held);
        }
        Ok(servers)
    }

    /// Adds what is new, in order.
    pub(super) fn grow(
        &mut self,
        ops: &[Op],
        retired: &mut Retired,
        report: &mut Report,
    ) -> Result<(), Failed> {
        let (commands, owners): (Vec<Command>, Vec<_>) =
            ops.iter().filter_map(|op| Some((growing(&op.step)?, op.owner.as_ref()))).unzip();
        let answers = self.ipvs.send(&commands)?;
        report.lines += commands.len();
        let mut again = Vec::new();
        let mut refused = None;
        for ((command, owner), answer) in commands.into_iter().zip(owners).zip(answers) {
            match (answer, command) {
                (None, Command::AddDestination(id, to)) => retired.forget(id, to.at),
                (None, _) => {}
                // It was about to go, or somebody else was faster.
                (Some(Errno::EEXIST), Command::AddDestination(id, to)) => {
                    retired.forget(id, to.at);
                    again.push(Command::SetDestination(id, to));
                }
                (Some(Errno::EEXIST), Command::AddService(service)) => {
                    again.push(Command::SetService(service));
                }
                // What it belongs to went away meanwhile: nobody's fault.
                (Some(errno @ (Errno::ENOENT | Errno::ESRCH)), command) => {
                    refused.get_or_insert_with(|| failed(&command, errno, None));
                }
                (Some(errno), command) => {
                    refused.get_or_insert_with(|| failed(&command, errno, owner));
                }
            }
        }
        report.lines += again.len();
        let answers = self.ipvs.send(&again)?;
        if let Some((command, errno)) = again.iter().zip(answers).find_map(|(c, a)| Some((c, a?))) {
            return Err(failed(command, errno, None));
        }
        refused.map_or(Ok(()), Err)?;
        self.add_addresses(ops, report)
    }

    /// Removes what goes, in order.
    pub(super) fn shrink(
        &mut self,
        ops: &[Op],
        retired: &mut Retired,
        report: &mut Report,
    ) -> Result<(), Failed> {
        let leaving: Vec<(ServiceId, SocketAddr)> = ops
            .iter()
            .filter_map(|op| match op.step {
                Step::Retire(server, to) => Some((id(server), to)),
                _ => None,
            })
            .collect();
        self.retire(&leaving, retired, report)?;
        let mut commands = Vec::new();
        for op in ops {
            if let Step::DeleteServer(server) = op.step {
                retired.forget_all(id(server));
                commands.push(Command::DeleteService(id(server)));
            }
        }
        self.remove(&commands, report)?;
        self.remove_addresses(ops, report)
    }

    /// Looks at destinations that wait for their last connection, and removes those that had it.
    pub(super) fn look_at_retired(
        &mut self,
        retired: &mut Retired,
        report: &mut Report,
    ) -> Result<(), Failed> {
        let mut gone = Vec::new();
        for of in retired.services() {
            let listed = self.ipvs.destinations(of)?;
            gone.extend(retired.look(of, &listed).into_iter().map(|at| Command::DeleteDestination(of, at)));
        }
        self.remove(&gone, report)
    }

    /// No new connections; what has none is removed.
    fn retire(
        &mut self,
        leaving: &[(ServiceId, SocketAddr)],
        retired: &mut Retired,
        report: &mut Report,
    ) -> Result<(), Failed> {
        let (patient, others): (Vec<_>, Vec<_>) =
            leaving.iter().copied().partition(|(of, _)| of.protocol == Protocol::Tcp.number());
        let mut gone: Vec<Command> =
            others.into_iter().map(|(of, at)| Command::DeleteDestination(of, at)).collect();
        let silent = |(of, at): &(ServiceId, SocketAddr)| {
            let to = Destination { at: *at, weight: 0, forwarding: Forwarding::Masquerade };
            Command::SetDestination(*of, to)
        };
        // Those that wait already have no weight.
        let new: Vec<Command> =
            patient.iter().filter(|(of, at)| !retired.has(*of, *at)).map(silent).collect();
        self.remove(&new, report)?;
        let mut by_service: BTreeMap<ServiceId, Vec<SocketAddr>> = BTreeMap::new();
        patient.iter().for_each(|(of, at)| by_service.entry(*of).or_default().push(*at));
        for (of, list) in by_service {
            retired.add(of, list);
            let listed = self.ipvs.destinations(of)?;
            gone.extend(retired.look(of, &listed).into_iter().map(|at| Command::DeleteDestination(of, at)));
        }
        self.remove(&gone, report)
    }

    /// Commands about things that may be gone already.
    fn remove(&mut self, commands: &[Command], report: &mut Report) -> Result<(), Failed> {
        let answers = self.ipvs.send(commands)?;
        report.lines += commands.len();
        for (command, answer) in commands.iter().zip(answers) {
            match answer {
                None | Some(Errno::ENOENT | Errno::ESRCH) => {}
                Some(errno) => return Err(failed(command, errno, None)),
            }
        }
        Ok(())
    }

    fn add_addresses(&mut self, ops: &[Op], report: &mut Report) -> Result<(), Failed> {
        for op in ops {
            let Step::AddAddress(ip) = op.step else { continue };
            let link = self.link()?;
            report.lines += 1;
            match self.routes.add_address(link, ip, self.family.host_prefix()) {
                Err(error) if error.errno() == Some(Errno::EEXIST) => {}
                Err(error) => return Err(unwritten(&op.step, error, op.owner.as_ref())),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn remove_addresses(&mut self, ops: &[Op], report: &mut Report) -> Result<(), Failed> {
        for op in ops {
            let Step::RemoveAddress(ip) = op.step else { continue };
            let link = self.link()?;
            report.lines += 1;
            match self.routes.remove_address(link, ip, self.family.host_prefix()) {
                Err(error) if error.errno() == Some(Errno::EADDRNOTAVAIL) => {}
                Err(error) => return Err(unwritten(&op.step, error, None)),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn link(&mut self) -> Result<LinkIndex, NetlinkError> {
        match self.link {
            Some(link) => Ok(link),
            None => self.routes.link_index(LINK).inspect(|link| self.link = Some(*link)),
        }
    }
}

/// The addresses of a family, by link.
pub(super) fn sort(all: &[LocalAddress], link: LinkIndex, family: Family) -> Addresses {
    let mut addresses = Addresses::default();
    for found in all {
        let LocalAddress { address, scope, .. } = *found;
        if Family::of(address) != family || address.is_loopback() || is_link_local(address, scope) {
            continue;
        }
        let list = if found.link == link { &mut addresses.on_link } else { &mut addresses.own };
        list.insert(address);
    }
    addresses
}

fn failed(command: &Command, errno: Errno, owner: Option<&ServicePortName>) -> Failed {
    let cause = Failure::Step { step: command.to_string(), errno };
    Failed { cause, culprit: owner.cloned().map(Box::new) }
}

fn unwritten(step: &Step, error: NetlinkError, owner: Option<&ServicePortName>) -> Failed {
    match error.errno() {
        Some(errno) => Failed {
            cause: Failure::Step { step: step.to_string(), errno },
            // A link that went away is nobody's fault.
            culprit: owner.filter(|_| errno != Errno::ENODEV).cloned().map(Box::new),
        },
        None => Failed::from(error),
    }
}

fn is_link_local(address: IpAddr, scope: Scope) -> bool {
    address.is_ipv6() && scope == Scope::Link
}

/// A step that adds to IPVS, as a command.
fn growing(step: &Step) -> Option<Command> {
    match step {
        Step::AddServer(server, how) => Some(Command::AddService(service(*server, how))),
        Step::SetServer(server, how) => Some(Command::SetService(service(*server, how))),
        Step::AddDestination(server, at) => {
            let to = Destination { at: *at, weight: WEIGHT, forwarding: Forwarding::Masquerade };
            Some(Command::AddDestination(id(*server), to))
        }
        Step::DeleteServer(_) | Step::Retire(..) | Step::AddAddress(_) | Step::RemoveAddress(_) => None,
    }
}

pub(super) fn id(server: Server) -> ServiceId {
    ServiceId { address: server.address, protocol: server.protocol.number(), port: server.port }
}

/// None for a protocol that Services do not have.
pub(super) fn server(id: ServiceId) -> Option<Server> {
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let protocol = all.into_iter().find(|protocol| protocol.number() == id.protocol)?;
    Some(Server { address: id.address, protocol, port: id.port })
}

fn service(server: Server, how: &Options) -> Service {
    Service {
        id: id(server),
        scheduler: how.scheduler.to_string(),
        flags: ServiceFlags(how.flags),
        persistence: how.sticky.map_or(Persistence::None, Persistence::Seconds),
    }
}

fn options(service: &Service) -> Options {
    let sticky = match service.persistence {
        Persistence::None => None,
        Persistence::Seconds(seconds) => Some(seconds),
    };
    Options { scheduler: service.scheduler.as_str().into(), flags: service.flags.0, sticky }
}

fn soundness(listed: &Listed) -> HeldDestination {
    match listed.destination {
        Destination { weight: WEIGHT, forwarding: Forwarding::Masquerade, .. } => HeldDestination::Sound,
        _ => HeldDestination::Other,
    }
}
