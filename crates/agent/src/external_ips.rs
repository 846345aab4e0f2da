//! The feature gate `AllowServiceExternalIPs`: while it is off, no external IP of any Service is served.

use std::sync::Arc;

use switchyard_config::gates;
use switchyard_model::{Event, Service};
use switchyard_source::Sink;

use crate::flags::Config;

/// The same sink, or one that sees no external IPs.
pub fn gated(config: &Config, sink: Sink) -> Sink {
    if gates::is_on("AllowServiceExternalIPs", &config.configuration.feature_gates) {
        return sink;
    }
    Arc::new(move |event| sink(without(event)))
}

fn without(event: Event) -> Event {
    match event {
        Event::Service(service) => Event::Service(bare(service)),
        Event::Services(services) => Event::Services(services.into_iter().map(bare).collect()),
        Event::Together(events) => Event::Together(events.into_iter().map(without).collect()),
        other => other,
    }
}

/// Copies only what has something to lose.
fn bare(mut service: Arc<Service>) -> Arc<Service> {
    if !service.external_ips.is_empty() {
        Arc::make_mut(&mut service).external_ips.clear();
    }
    service
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use switchyard_model::{ServiceName, ServiceType, TrafficPolicy};

    use super::*;
    use crate::flags::Flags;

    fn service() -> Arc<Service> {
        Arc::new(Service {
            name: ServiceName { namespace: "default".into(), name: "web".into() },
            created: 0,
            kind: ServiceType::ClusterIp,
            cluster_ips: Vec::new(),
            external_ips: vec!["192.0.2.1".parse().expect("an address")],
            load_balancer_ips: Vec::new(),
            source_ranges: Vec::new(),
            affinity: None,
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            health_check_node_port: None,
            ports: Vec::new(),
        })
    }

    /// How many external IPs come through.
    fn seen(flags: &[&str], event: Event) -> usize {
        fn count(event: &Event) -> usize {
            match event {
                Event::Service(service) => service.external_ips.len(),
                Event::Services(services) => services.iter().map(|service| service.external_ips.len()).sum(),
                Event::Together(events) => events.iter().map(count).sum(),
                _ => 0,
            }
        }
        let args = std::iter::once("switchyard").chain(flags.iter().copied()).map(Into::into);
        let config = Flags::read(args).expect("flags parse").check().expect("flags are fine");
        let total = Arc::new(Mutex::new(0));
        let told = total.clone();
        let sink: Sink = Arc::new(move |event| *told.lock().expect("no test panics") += count(&event));
        gated(&config, sink)(event);
        *total.lock().expect("no test panics")
    }

    #[test]
    fn external_ips_are_served_unless_the_gate_is_off() {
        let events =
            || Event::Together(vec![Event::Service(service()), Event::Services(vec![service(), service()])]);
        assert_eq!(seen(&[], events()), 3);
        assert_eq!(seen(&["--feature-gates=AllowServiceExternalIPs=true"], events()), 3);
        assert_eq!(seen(&["--feature-gates=AllowServiceExternalIPs=false"], events()), 0);
    }
}
