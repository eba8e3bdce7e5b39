package node

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"howdah.dev/test/kube/nodeinit"
	"howdah.dev/test/kube/topology"
)

//go:embed templates
var templates embed.FS

// registries is the folder that says how containerd speaks to each registry.
const registries = "registries"

// parameters are what the templates name.
type parameters struct {
	Name, Root, CNI, PKI, Cgroup, DNS, Domain, ResolvConf string
	Registry, Registries                                  string
	PodCIDRs, Everywhere                                  []string
}

func parametersOf(cluster topology.Cluster, node topology.Node) parameters {
	return parameters{
		Name:       node.Name,
		Root:       cluster.NodePath(node.Name, "containerd"),
		CNI:        cluster.NodePath(node.Name, "cni"),
		PKI:        cluster.Path("pki"),
		Cgroup:     cluster.Prefixed(node.Name),
		DNS:        cluster.ServiceDNS(),
		Domain:     topology.ClusterDomain,
		ResolvConf: cluster.Path("resolv.conf"),
		Registry:   cluster.Registry(),
		Registries: cluster.NodePath(node.Name, registries),
		PodCIDRs:   node.PodCIDRs,
		Everywhere: cluster.Everywhere(),
	}
}

// render returns the files of a node by their path below its folder.
func render(cluster topology.Cluster, node topology.Node) (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, source := range map[string]string{
		"containerd.toml":      "containerd.toml",
		"kubelet.yaml":         "kubelet.yaml",
		"cni/10-pods.conflist": "pods.conflist",
		registries + "/" + cluster.Registry() + "/hosts.toml": "hosts.toml",
	} {
		parsed, err := template.New(source).Option("missingkey=error").ParseFS(templates, "templates/"+source)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		if err := parsed.Execute(&out, parametersOf(cluster, node)); err != nil {
			return nil, err
		}
		files[name] = out.Bytes()
	}
	config, err := json.MarshalIndent(initConfig(cluster, node), "", "  ")
	if err != nil {
		return nil, err
	}
	files["init.json"] = config
	return files, nil
}

// WriteFiles writes what a node needs before it starts, but its images.
func WriteFiles(cluster topology.Cluster, node topology.Node) error {
	for _, folder := range []string{"kubelet", "log", "pods", "containers"} {
		if err := os.MkdirAll(cluster.NodePath(node.Name, folder), 0o755); err != nil {
			return err
		}
	}
	files, err := render(cluster, node)
	if err != nil {
		return fmt.Errorf("files of node %s: %w", node.Name, err)
	}
	for name, content := range files {
		path := cluster.NodePath(node.Name, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// initConfig is what the node's first process does.
func initConfig(cluster topology.Cluster, node topology.Node) nodeinit.Config {
	path := func(parts ...string) string { return cluster.NodePath(node.Name, parts...) }
	config := nodeinit.Config{
		Hostname: node.Name,
		Cgroup:   cluster.Prefixed(node.Name),
		Socket:   path("init.sock"),
		Path:     cluster.Bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		LogDir:   path("log"),
		// Handles of pods' networks and containers live in memory, or stale ones would survive a power cut.
		Tmpfs: []string{"/run/netns", "/run/containerd", "/var/lib/cni"},
		Binds: []nodeinit.Bind{
			{From: path("kubelet"), To: "/var/lib/kubelet"},
			{From: path("pods"), To: "/var/log/pods"},
			{From: path("containers"), To: "/var/log/containers"},
		},
		Processes: nodeProcesses(cluster, node),
	}
	if node.IsControlPlane() {
		config.Processes = append(controlProcesses(cluster), config.Processes...)
	}
	return config
}

// HostFolders are the empty folders that nodes of any cluster need on the machine as places to mount on.
func HostFolders() []string {
	return []string{"/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/run/containerd"}
}
