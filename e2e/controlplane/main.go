// Command controlplane is what a proxy needs of a cluster: etcd and kube-apiserver in one process, and nothing that acts on its own. No
// controller runs, so EndpointSlices and Nodes are those that a test writes.
//
// In: a directory and the address to serve on. Out, in that directory: ca.crt, admin.kubeconfig (cluster-admin) and api.sock, where plain
// HTTP has the same rights. The line "ready" on standard output says that all of it works. Started again with the same directory it goes
// on with the same objects and credentials. It ends on SIGTERM, and when its parent does: a test that is killed leaves nothing behind.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics that upstream's own main has too
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

const port = "6443"

func main() {
	dir := flag.String("dir", "", "directory for data, credentials and the socket")
	address := flag.String("address", "127.0.0.1", "address to serve on; clients are told this one")
	services := flag.String("service-cluster-ip-range", "10.96.0.0/12,fd00:10:96::/112", "where cluster IPs come from")
	flag.Parse()
	code, err := run(*dir, net.ParseIP(*address), *services, flag.Args())
	if err != nil {
		log.Fatalf("controlplane: %v", err)
	}
	os.Exit(code)
}

// run serves until it is told to end. Further arguments are flags of kube-apiserver.
func run(dir string, address net.IP, services string, further []string) (int, error) {
	if dir == "" || address == nil {
		return 0, fmt.Errorf("--dir and an --address are needed")
	}
	if err := makeCredentials(dir, address); err != nil {
		return 0, fmt.Errorf("credentials in %s: %w", dir, err)
	}
	store, err := startEtcd(filepath.Join(dir, "etcd"))
	if err != nil {
		return 0, fmt.Errorf("etcd: %w", err)
	}
	defer store.Close()
	door, err := openDoor(dir, net.JoinHostPort(address.String(), port))
	if err != nil {
		return 0, fmt.Errorf("socket in %s: %w", dir, err)
	}
	defer door.Close()
	go endWithParent(os.Getppid())
	go door.sayWhenReady(context.Background())

	command := app.NewAPIServerCommand()
	command.SetArgs(append(flags(dir, address, services), further...))
	return cli.Run(command), nil
}

func flags(dir string, address net.IP, services string) []string {
	at := func(name string) string { return filepath.Join(dir, name) }
	return []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=" + address.String(),
		"--advertise-address=" + address.String(),
		"--secure-port=" + port,
		"--tls-cert-file=" + at("server.crt"),
		"--tls-private-key-file=" + at("server.key"),
		"--client-ca-file=" + at("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + at("accounts.key"),
		"--service-account-signing-key-file=" + at("accounts.key"),
		"--service-cluster-ip-range=" + services,
		"--allow-privileged=true", // as kubeadm starts it; without, it refuses pods that kube-proxy itself needs
	}
}

// endWithParent ends this process once its parent is another one than at the start. Nobody is left to whom a good end would matter: the
// API server's own takes a minute while clients watch.
func endWithParent(parent int) {
	for os.Getppid() == parent {
		time.Sleep(500 * time.Millisecond)
	}
	os.Exit(1)
}
