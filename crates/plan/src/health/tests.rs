//! What a load balancer is told.

use switchyard_model::Family;

use super::*;
use crate::testing::World;

#[test]
fn distinct_ready_addresses_of_this_node_count_over_all_ports() {
    let text = "svc a/web:http tcp 10.96.0.1:80 lb=198.51.100.1 etp=local health=32000
        ep 10.1.0.1:80 @here
        ep 10.1.0.2:80 @here terminating
        ep 10.1.0.3:80 @here ready-terminating
        ep 10.1.1.1:80 @there
        ep 10.1.0.4:80 @here starting
        svc a/web:https tcp 10.96.0.1:443 lb=198.51.100.1 etp=local health=32000
        ep 10.1.0.1:443 @here
        ep 10.1.0.5:443 @here
        svc b/none tcp 10.96.0.2:80 lb=198.51.100.2 etp=local health=32001
        svc c/plain tcp 10.96.0.3:80
        ep 10.1.0.1:80 @here";
    for family in Family::ALL {
        let ports: Vec<Arc<ServicePort>> = World::new(family, text).ports.into_iter().map(Arc::new).collect();
        let checks = health_checks("here", ports.iter());
        let shown: Vec<String> =
            checks.iter().map(|(name, c)| format!("{name} {} {}", c.port, c.local_endpoints)).collect();
        assert_eq!(shown, ["a/web 32000 3", "b/none 32001 0"]);
    }
}
