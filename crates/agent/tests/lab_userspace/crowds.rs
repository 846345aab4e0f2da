//! Ten thousand idle connections, or as many as this machine's limit of open files allows.

use std::net::TcpStream;

use socket2::{Domain, Socket, Type};
use switchyard_lab::Transport;
use switchyard_model::Family;

use crate::common::looking::{at, eventually, ip, series};
use crate::common::variant::{Variant, say};
use crate::common::world::World;
use crate::relayed;

const CROWD: usize = 10_000;

/// Memory of the proxy in bytes.
fn memory(world: &World) -> f64 {
    series(world.n1(), "process_resident_memory_bytes").values().sum()
}

/// How many connections there can be: the proxy needs two descriptors for each, and some more.
fn affordable(world: &World) -> usize {
    let most: f64 = series(world.n1(), "process_max_fds").values().sum();
    let most = format!("{most:.0}").parse::<usize>().unwrap();
    CROWD.min(most.saturating_sub(400) / 2)
}

#[test]
fn a_crowd_of_idle_connections_costs_little_and_hinders_nobody() {
    let Some(world) =
        World::running(Variant::Userspace, "service web cluster.1:80/tcp\nendpoint web n1.1:8080")
    else {
        return;
    };
    // An endpoint that never accepts: the kernel does it for its queue, so that no descriptors are needed here.
    let pod = world.pod("n1.2");
    let address = std::net::SocketAddr::new(ip(&pod, Family::V4), 9000);
    let queue = pod.run(move || {
        std::fs::write("/proc/sys/net/core/somaxconn", "65535").unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&address.into()).unwrap();
        socket.listen(65_535).unwrap();
        socket
    });
    let queue = queue.unwrap();
    world.write("service crowd cluster.2:80/tcp\nendpoint crowd n1.2:9000");
    world.settle();
    let (wanted, before) = (affordable(&world), memory(&world));
    let to = at("cluster.2:80", Family::V4);
    let dial = move || (0..wanted).map(|_| TcpStream::connect(to)).collect::<Result<Vec<_>, _>>();
    let held = world.pod("n1.9").run(dial).unwrap().unwrap();
    eventually("all are relayed", || relayed(&world, "open_connections") >= wanted as f64);
    let each = (memory(&world) - before) / wanted as f64;
    say(&format!("{wanted} idle connections: {each:.0} bytes each in the proxy"));
    assert!(each < 8192.0, "{each} bytes each");
    world.wait_for_answer("n1.9", Transport::Tcp, "cluster.1:80", &["n1.1"]);
    assert_eq!(world.health("/healthz").0, 200);
    // The end of one side leaves the other open.
    drop(held);
    drop(queue);
    eventually("all are gone", || relayed(&world, "open_connections") == 0.0);
}
