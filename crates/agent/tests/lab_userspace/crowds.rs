//! Ten thousand idle connections.
//!
//! The proxy needs two descriptors for each. Its limit is raised for that; where root may not do so, the number is a little smaller, which is
//! said loudly, but it is never less than [`FLOOR`].

use std::net::TcpStream;
use std::process::Command;

use socket2::{Domain, Socket, Type};
use switchyard_lab::Transport;
use switchyard_model::Family;
use switchyard_relay::raise_limit;

use crate::common::looking::{at, eventually, ip, series};
use crate::common::variant::{Variant, say};
use crate::common::world::World;
use crate::{refused, relayed, run_by};

const CROWD: usize = 10_000;

/// As many as a hard limit of 20,000 open files leaves room for.
const FLOOR: usize = 9_900;

/// A limit that [`CROWD`] connections fit in, with what else the proxy has open.
const ENOUGH: &str = "--nofile=20600:20600";

/// Memory of the proxy in bytes.
fn memory(world: &World) -> f64 {
    series(world.n1(), "process_resident_memory_bytes").values().sum()
}

/// How many connections the proxy has room for: 128 descriptors are never used for connections, and some are listeners'.
fn wanted(world: &World) -> usize {
    let most: f64 = series(world.n1(), "process_max_fds").values().sum();
    let most = format!("{most:.0}").parse::<usize>().unwrap();
    let wanted = CROWD.min(most.saturating_sub(128 + 72) / 2);
    if wanted < CROWD {
        say(&format!(
            "SKIPPED in part: only {wanted} idle connections instead of {CROWD}; the limit of {most} open files cannot be raised here"
        ));
    }
    assert!(wanted >= FLOOR, "raise the hard limit of open files (ulimit -Hn) from {most} to 20600 at least");
    wanted
}

/// The proxy, with a limit of open files that is high enough if root may raise it.
fn running(statements: &str) -> Option<World> {
    let world = World::new_or_skip(Variant::Userspace)?;
    world.write(statements);
    let may_raise = Command::new("prlimit").args([ENOUGH, "true"]).output().unwrap().status.success();
    let mut command = world.command(&[]);
    if may_raise {
        command = run_by("prlimit", &[ENOUGH], &command);
    }
    world.launch(world.n1(), &mut command);
    world.settle();
    Some(world)
}

/// Port 9000 of pod n1.2: an endpoint that never accepts. The kernel does it for its queue, so that no descriptors are needed here.
pub(crate) fn queue(world: &World) -> Socket {
    let pod = world.pod("n1.2");
    let address = std::net::SocketAddr::new(ip(&pod, Family::V4), 9000);
    let listen = move || {
        std::fs::write("/proc/sys/net/core/somaxconn", "65535").unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&address.into()).unwrap();
        socket.listen(65_535).unwrap();
        socket
    };
    pod.run(listen).unwrap()
}

#[test]
fn a_crowd_of_idle_connections_costs_little_and_hinders_nobody() {
    let Some(world) = running("service web cluster.1:80/tcp\nendpoint web n1.1:8080") else { return };
    // This program needs one for each.
    raise_limit().unwrap();
    let queue = queue(&world);
    world.write("service crowd cluster.2:80/tcp\nendpoint crowd n1.2:9000");
    world.settle();
    let (wanted, before) = (wanted(&world), memory(&world));
    let to = at("cluster.2:80", Family::V4);
    let dial = move || (0..wanted).map(|_| TcpStream::connect(to)).collect::<Result<Vec<_>, _>>();
    let held = world.pod("n1.9").run(dial).unwrap().unwrap();
    eventually("all are relayed", || relayed(&world, "open_connections") >= wanted as f64);
    let each = (memory(&world) - before) / wanted as f64;
    say(&format!("{wanted} idle connections: {each:.0} bytes each in the proxy"));
    assert!(each < 8192.0, "{each} bytes each");
    assert_eq!(refused(&world, "out_of_descriptors"), 0.0);
    world.wait_for_answer("n1.9", Transport::Tcp, "cluster.1:80", &["n1.1"]);
    assert_eq!(world.health("/healthz").0, 200);
    // The end of one side leaves the other open.
    drop(held);
    drop(queue);
    eventually("all are gone", || relayed(&world, "open_connections") == 0.0);
}
