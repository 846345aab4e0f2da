//! A [`World`] whose objects are in a real API server.

use std::process::Command;

use serde_json::Value;
use switchyard_lab::Transport::Tcp;

use crate::common::variant::Variant;
use crate::common::world::World;
use crate::e2e::api::Api;
use crate::e2e::control_plane::ControlPlane;
use crate::e2e::gateway::Gateway;

/// One Service with one endpoint.
pub(crate) const WEB: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080";

/// See the module. The order of the fields is that of their ends.
pub(crate) struct OnCluster {
    pub(crate) world: World,
    pub(crate) gateway: Gateway,
    pub(crate) control_plane: ControlPlane,
}

impl OnCluster {
    /// With these objects and the agent running; prints why it cannot be.
    pub(crate) fn running(variant: Variant, statements: &str) -> Option<Self> {
        Self::running_with(variant, statements, &[])
    }

    /// The same with further flags of the agent.
    pub(crate) fn running_with(variant: Variant, statements: &str, flags: &[&str]) -> Option<Self> {
        let this = Self::unstarted(variant)?;
        this.write(statements);
        this.start(flags);
        Some(this)
    }

    /// Without objects and without an agent.
    pub(crate) fn unstarted(variant: Variant) -> Option<Self> {
        let control_plane = ControlPlane::start_or_skip()?;
        let world = World::new_or_skip(variant)?;
        // The kernel would remember for two minutes that a SYN which came before there were rules is not to be translated, and take a later
        // connection from the same port for that one.
        world.refuse_untranslated();
        let gateway = Gateway::open(&world.lab, &control_plane);
        Some(Self { world, gateway, control_plane })
    }

    /// With [`WEB`], which answers.
    pub(crate) fn with_web(variant: Variant) -> Option<Self> {
        let this = Self::running(variant, WEB)?;
        this.expect("cluster.1:80", &["n1.1"]);
        Some(this)
    }

    /// Starts the agent as a user would: with a kubeconfig.
    pub(crate) fn start(&self, flags: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
        command.arg("--kubeconfig").arg(self.control_plane.kubeconfig()).args(self.world.flags()).args(flags);
        self.world.environment(&mut command);
        self.world.launch(self.world.n1(), &mut command);
    }

    pub(crate) fn api(&self) -> Api {
        self.control_plane.api()
    }

    /// Adds statements of the scenario language; the API server has the objects that follow from all of them when this returns.
    pub(crate) fn write(&self, statements: &str) {
        self.world.write(statements);
        let text = std::fs::read(self.world.manifests().join("world.yaml")).unwrap();
        let list: Value = serde_json::from_slice(&text).unwrap();
        self.api().put_all(&list).unwrap();
    }

    /// Waits until one of the pods answers a pod of n1, in both families.
    pub(crate) fn expect(&self, to: &str, by: &[&str]) {
        self.world.wait_for_answer("n1.9", Tcp, to, by);
    }
}
