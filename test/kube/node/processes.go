package node

import (
	"fmt"
	"strings"

	"howdah.dev/test/kube/nodeinit"
	"howdah.dev/test/kube/topology"
)

// The names of processes that verbs speak of.
const (
	APIServer  = "kube-apiserver"
	containerd = "containerd"
)

// nodeProcesses run on every node.
func nodeProcesses(cluster topology.Cluster, node topology.Node) []nodeinit.Process {
	path := func(parts ...string) string { return cluster.NodePath(node.Name, parts...) }
	kubelet := []string{
		"kubelet",
		"--config=" + path("kubelet.yaml"),
		"--kubeconfig=" + Kubeconfig(cluster, "node-"+node.Name),
		"--root-dir=/var/lib/kubelet",
		"--hostname-override=" + node.Name,
		"--node-ip=" + strings.Join(node.IPs, ","),
		fmt.Sprintf("--node-labels=node=%s,topology.kubernetes.io/zone=%s", node.Name, node.Zone),
	}
	if node.IsControlPlane() {
		kubelet = append(kubelet, "--register-with-taints=node-role.kubernetes.io/control-plane=:NoSchedule")
	}
	return []nodeinit.Process{
		{Name: containerd, Args: []string{"containerd", "-c", path("containerd.toml")}},
		{Name: "kubelet", Args: kubelet, After: nodeinit.Gate{Socket: "/run/containerd/containerd.sock"}},
		{Name: "kube-proxy", Args: []string{
			"kube-proxy",
			"--kubeconfig=" + Kubeconfig(cluster, "kube-proxy"),
			"--proxy-mode=nftables",
			"--hostname-override=" + node.Name,
			"--cluster-cidr=" + strings.Join(cluster.PodNetworks(), ","),
			// The connection table's limits belong to the machine, and can't be set from a namespace.
			"--conntrack-max-per-core=0",
			"--conntrack-tcp-timeout-established=0",
			"--conntrack-tcp-timeout-close-wait=0",
		}},
		{Name: "policies", Args: []string{"policies", "--kubeconfig=" + Kubeconfig(cluster, "policies"), "--node=" + node.Name}},
	}
}

// controlProcesses run on the control plane's node, before the others.
func controlProcesses(cluster topology.Cluster) []nodeinit.Process {
	pki := func(name string) string { return cluster.Path("pki", name) }
	// The controller manager exits when its roles are not there yet, hence the gate.
	ready := nodeinit.Gate{URL: cluster.APIServer() + "/readyz", CA: pki("ca.crt"), Cert: pki("admin.crt"), Key: pki("admin.key")}
	return []nodeinit.Process{
		{Name: "etcd", Args: []string{
			"etcd",
			"--data-dir=" + cluster.Path("etcd"),
			"--unsafe-no-fsync", // the machine's disk is not what is tested
			"--listen-client-urls=http://127.0.0.1:2379",
			"--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380",
		}},
		{Name: APIServer, Args: apiServer(cluster)},
		{Name: "kube-controller-manager", After: ready, Args: withKubeconfig(cluster, "kube-controller-manager",
			"--service-account-private-key-file="+pki("sa.key"),
			"--root-ca-file="+pki("ca.crt"),
			"--cluster-signing-cert-file="+pki("ca.crt"),
			"--cluster-signing-key-file="+pki("ca.key"),
			"--use-service-account-credentials=true",
			"--allocate-node-cidrs=false",
			"--flex-volume-plugin-dir=/var/lib/kubelet/volume-plugins",
			// Its usual 20 requests a second make it start for four seconds.
			"--kube-api-qps=300",
			"--kube-api-burst=600",
		)},
		{Name: "kube-scheduler", After: ready, Args: withKubeconfig(cluster, "kube-scheduler")},
		{Name: "provisioner", After: ready, Args: []string{
			"provisioner",
			"--kubeconfig=" + Kubeconfig(cluster, "provisioner"),
			"--base=" + cluster.Path("volumes"),
		}},
	}
}

func apiServer(cluster topology.Cluster) []string {
	pki := func(name string) string { return cluster.Path("pki", name) }
	return []string{
		APIServer,
		"--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address=" + cluster.Address(topology.FirstNode),
		"--bind-address=" + bindAddress(cluster),
		"--secure-port=6443",
		"--client-ca-file=" + pki("ca.crt"),
		"--tls-cert-file=" + pki("kube-apiserver.crt"),
		"--tls-private-key-file=" + pki("kube-apiserver.key"),
		"--kubelet-certificate-authority=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki("kubelet-client.crt"),
		"--kubelet-client-key=" + pki("kubelet-client.key"),
		// Extension API servers know by these who asks.
		"--requestheader-client-ca-file=" + pki("ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + pki("front-proxy-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range=" + strings.Join(cluster.ServiceNetworks(), ","),
		"--service-account-issuer=https://kubernetes.default.svc." + topology.ClusterDomain,
		"--service-account-key-file=" + pki("sa.pub"),
		"--service-account-signing-key-file=" + pki("sa.key"),
		"--allow-privileged=true",
		"--profiling=false",
		// The audit log is what counts requests by client: the metric has no user agent.
		"--audit-policy-file=" + cluster.Path("audit-policy.yaml"),
		"--audit-log-path=" + cluster.Path("audit.log"),
		"--audit-log-maxsize=1000",
		"--audit-log-maxbackup=1",
	}
}

// bindAddress is every address of the node.
func bindAddress(cluster topology.Cluster) string {
	if cluster.HasIPv6() {
		return "::" // those of IPv4 too
	}
	return "0.0.0.0"
}

// withKubeconfig is a control plane process with one identity for everything; there is one replica to elect from.
func withKubeconfig(cluster topology.Cluster, name string, more ...string) []string {
	file := Kubeconfig(cluster, name)
	return append([]string{
		name,
		"--kubeconfig=" + file,
		"--authentication-kubeconfig=" + file,
		"--authorization-kubeconfig=" + file,
		"--leader-elect=false",
	}, more...)
}

// Kubeconfig is where the kubeconfig of an identity lies.
func Kubeconfig(cluster topology.Cluster, identity string) string {
	return cluster.Path("pki", identity+".conf")
}
