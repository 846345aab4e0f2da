//! The jumps, as arguments.

use expect_test::expect;

use super::*;

#[test]
fn jumps_in_the_order_in_which_they_are_ensured() {
    let show = |j: &Jump| format!("{} {} {}\n", j.table.as_str(), j.from, j.arguments().join(" "));
    expect![[r#"
        filter INPUT -m conntrack --ctstate NEW -m comment --comment kubernetes externally-visible service portals -j KUBE-EXTERNAL-SERVICES
        filter FORWARD -m conntrack --ctstate NEW -m comment --comment kubernetes externally-visible service portals -j KUBE-EXTERNAL-SERVICES
        filter INPUT -m comment --comment kubernetes health check service ports -j KUBE-NODEPORTS
        filter FORWARD -m conntrack --ctstate NEW -m comment --comment kubernetes service portals -j KUBE-SERVICES
        filter OUTPUT -m conntrack --ctstate NEW -m comment --comment kubernetes service portals -j KUBE-SERVICES
        filter FORWARD -m comment --comment kubernetes forwarding rules -j KUBE-FORWARD
        filter INPUT -m conntrack --ctstate NEW -m comment --comment kubernetes load balancer firewall -j KUBE-PROXY-FIREWALL
        filter OUTPUT -m conntrack --ctstate NEW -m comment --comment kubernetes load balancer firewall -j KUBE-PROXY-FIREWALL
        filter FORWARD -m conntrack --ctstate NEW -m comment --comment kubernetes load balancer firewall -j KUBE-PROXY-FIREWALL
        nat OUTPUT -m comment --comment kubernetes service portals -j KUBE-SERVICES
        nat PREROUTING -m comment --comment kubernetes service portals -j KUBE-SERVICES
        nat POSTROUTING -m comment --comment kubernetes postrouting rules -j KUBE-POSTROUTING
        filter INPUT -j KUBE-FIREWALL
        filter OUTPUT -j KUBE-FIREWALL
    "#]].assert_eq(&JUMPS.iter().map(show).collect::<String>());
}

/// A comment is one argument, without quotes.
#[test]
fn a_comment_is_one_argument() {
    let arguments = JUMPS[0].arguments();
    assert_eq!(arguments[7], "kubernetes externally-visible service portals");
    assert_eq!(arguments.len(), 10);
}
