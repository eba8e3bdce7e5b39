package node

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"howdah.dev/test/kube/nodeinit"
	"howdah.dev/test/kube/topology"
)

func rendered(t *testing.T, name string) map[string]string {
	t.Helper()
	cluster, err := topology.New("test", "/cache", topology.Shape{Workers: 3, IP: topology.IPv4})
	if err != nil {
		t.Fatal(err)
	}
	cluster.Bin = "/programs"
	node, err := cluster.Node(name)
	if err != nil {
		t.Fatal(err)
	}
	files, err := render(cluster, node)
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for file, content := range files {
		text[file] = string(content)
	}
	return text
}

func TestANodesFilesSpeakOfThatNodeAlone(t *testing.T) {
	files := rendered(t, "w2")
	for file, wants := range map[string][]string{
		"containerd.toml":      {`root = "/cache/run/test/nodes/w2/containerd"`, `conf_dir = "/cache/run/test/nodes/w2/cni"`, "restrict_oom_score_adj = true"},
		"kubelet.yaml":         {`cgroupRoot: "/test-w2"`, "node-w2.crt", `clusterDNS: ["10.96.0.10"]`},
		"cni/10-pods.conflist": {`"subnet": "10.245.2.0/24"`},
	} {
		for _, want := range wants {
			if !strings.Contains(files[file], want) {
				t.Errorf("%s lacks %s:\n%s", file, want, files[file])
			}
		}
	}
	for file, content := range files {
		if strings.Contains(content, "<no value>") || strings.Contains(content, "{{") || strings.Contains(content, "w1") {
			t.Errorf("%s isn't filled in:\n%s", file, content)
		}
	}
	if !json.Valid([]byte(files["cni/10-pods.conflist"])) {
		t.Error("the network configuration is no JSON")
	}
}

func TestANodePullsFromThisMachineOverPlainHTTP(t *testing.T) {
	files := rendered(t, "w2")
	if want := `config_path = "/cache/run/test/nodes/w2/registries"`; !strings.Contains(files["containerd.toml"], want) {
		t.Errorf("containerd.toml lacks %s", want)
	}
	cluster, err := topology.New("test", "/cache", topology.Shape{Workers: 3, IP: topology.IPv4})
	if err != nil {
		t.Fatal(err)
	}
	hosts := files["registries/"+cluster.Registry()+"/hosts.toml"]
	if want := `server = "http://` + cluster.Address(topology.Machine) + `:5000"`; !strings.Contains(hosts, want) {
		t.Errorf("hosts.toml is %q, and lacks %s", hosts, want)
	}
}

func TestTheControlPlaneRunsWhatWorkersDoAndItsOwn(t *testing.T) {
	names := func(node string) []string {
		var config nodeinit.Config
		if err := json.Unmarshal([]byte(rendered(t, node)["init.json"]), &config); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, process := range config.Processes {
			names = append(names, process.Name)
		}
		return names
	}
	workers := []string{"containerd", "kubelet", "kube-proxy", "policies"}
	if got := names("w1"); !slices.Equal(got, workers) {
		t.Errorf("a worker runs %v", got)
	}
	own := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "provisioner"}
	if got := names("cp"); !slices.Equal(got, append(own, workers...)) {
		t.Errorf("the control plane runs %v", got)
	}
}

func TestOnlyTheControlPlaneIsTainted(t *testing.T) {
	const taint = "--register-with-taints=node-role.kubernetes.io/control-plane=:NoSchedule"
	if !strings.Contains(rendered(t, "cp")["init.json"], taint) {
		t.Error("workloads may go to the control plane")
	}
	if strings.Contains(rendered(t, "w1")["init.json"], taint) {
		t.Error("workloads may not go to a worker")
	}
}
