package cluster

import (
	"os"
	"path/filepath"
	"time"

	"howdah.dev/test/kube/node"
	"howdah.dev/test/kube/pki"
	"howdah.dev/test/kube/topology"
)

// masters is the group that may do everything.
const masters = "system:masters"

// identities of the cluster by the name of their files. Each component has the one that RBAC expects of it.
func identities(cluster topology.Cluster) map[string]pki.Identity {
	all := map[string]pki.Identity{
		"kube-apiserver": {CommonName: "kube-apiserver", Names: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc." + topology.ClusterDomain, "localhost",
			"127.0.0.1", cluster.ServiceAPI(), cluster.Address(topology.FirstNode),
		}},
		"admin":                   {CommonName: "admin", Organization: masters},
		"kubelet-client":          {CommonName: "kube-apiserver-kubelet-client", Organization: masters},
		"front-proxy-client":      {CommonName: "front-proxy-client"},
		"kube-controller-manager": {CommonName: "system:kube-controller-manager"},
		"kube-scheduler":          {CommonName: "system:kube-scheduler"},
		"kube-proxy":              {CommonName: "system:kube-proxy"},
		"provisioner":             {CommonName: "local-provisioner"},
		"policies":                {CommonName: "policies"},
	}
	for _, n := range cluster.Nodes() {
		all["node-"+n.Name] = pki.Identity{
			CommonName:   "system:node:" + n.Name,
			Organization: "system:nodes",
			Names:        append([]string{n.Name}, n.IPs...),
		}
	}
	return all
}

// writeCertificates makes the authority, all certificates, and a kubeconfig for each.
func writeCertificates(cluster topology.Cluster) error {
	folder := cluster.Path("pki")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	now := time.Now()
	authority, err := pki.NewAuthority("howdah-test-"+cluster.Name, now)
	if err != nil {
		return err
	}
	if err := authority.Save(folder); err != nil {
		return err
	}
	for name, identity := range identities(cluster) {
		if err := writeIdentity(cluster, authority, name, identity, now); err != nil {
			return err
		}
	}
	return writeTokenKeys(folder)
}

func writeIdentity(cluster topology.Cluster, authority *pki.Authority, name string, identity pki.Identity, now time.Time) error {
	pair, err := authority.Issue(identity, now)
	if err != nil {
		return err
	}
	if err := pair.Save(cluster.Path("pki"), name); err != nil {
		return err
	}
	kubeconfig, err := pki.Kubeconfig(cluster.APIServer(), cluster.Name, authority.PEM, pair)
	if err != nil {
		return err
	}
	return pki.SaveKubeconfig(node.Kubeconfig(cluster, name), kubeconfig)
}

func writeTokenKeys(folder string) error {
	public, private, err := pki.NewKey()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "sa.pub"), public, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "sa.key"), private, 0o600)
}
