// Package binaries builds the programs that a test cluster runs from Go modules that are pinned in this repository,
// and keeps them in the cache under a key of their content.
package binaries

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Component is a nested module below assets/ and the programs that come from it.
type Component struct {
	Module   string   // folder below assets/
	Packages []string // import paths; "." is the module's own main package
	Tags     string
	LDFlags  string
	Takes    string // how long a person has to wait for a first build on 4 cores; a moment when empty
}

func (c Component) duration() string {
	if c.Takes == "" {
		return "a moment, once"
	}
	return c.Takes + " on 4 cores, once"
}

// containerdVersion is what its programs report, and kubernetesReleases what those of Kubernetes do; the sources are pinned in each
// module's go.mod and go.sum.
const containerdVersion = "v2.4.2"

// kubernetesReleases by minor version.
var kubernetesReleases = map[string]string{"1.33": "v1.33.13", "1.34": "v1.34.4", "1.35": "v1.35.4", newestKubernetes: "v1.36.3"}

const newestKubernetes = "1.36"

// KubernetesVersions are the minor versions that there are, the oldest first.
func KubernetesVersions() []string { return slices.Sorted(maps.Keys(kubernetesReleases)) }

// Components of a cluster.
var (
	Kubernetes = kubernetes(newestKubernetes)
	Etcd       = Component{Module: "etcd", Packages: []string{"."}}
	Containerd = Component{
		Module:   "containerd",
		Packages: prefixed("github.com/containerd/containerd/v2/cmd/", "containerd", "containerd-shim-runc-v2", "ctr"),
		Tags:     "no_btrfs no_zfs no_devmapper",
		LDFlags:  "-X github.com/containerd/containerd/v2/version.Version=" + containerdVersion,
	}
	CoreDNS     = Component{Module: "coredns", Packages: []string{"."}}
	Pause       = Component{Module: "pause", Packages: []string{"."}}
	Provisioner = Component{Module: "provisioner", Packages: []string{"."}}
	Policies    = Component{Module: "policies", Packages: []string{"."}}
	// MetricsServer isn't part of every cluster: few tests want it.
	MetricsServer = Component{Module: "metrics-server", Packages: []string{"sigs.k8s.io/metrics-server/cmd/metrics-server"}, Takes: "about 2 minutes"}
	MinIO         = Component{Module: "minio", Packages: []string{"github.com/minio/minio"}, Takes: "about 2 minutes"}
	VersityGW     = Component{Module: "versitygw", Packages: []string{"github.com/versity/versitygw/cmd/versitygw"}}
)

// kubernetes of a minor version. The module of the newest has no version in its name.
func kubernetes(minor string) Component {
	module := "kubernetes"
	if minor != newestKubernetes {
		module += "-" + minor
	}
	return Component{
		Module: module,
		Packages: prefixed("k8s.io/kubernetes/cmd/",
			"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"),
		LDFlags: kubernetesFlags(kubernetesReleases[minor]),
		Takes:   "about 5 minutes",
	}
}

// ForNodes are the components whose programs run on the nodes, with Kubernetes of a minor version; empty: the newest.
func ForNodes(minor string) ([]Component, error) {
	minor = cmp.Or(minor, newestKubernetes)
	if kubernetesReleases[minor] == "" {
		return nil, fmt.Errorf("no Kubernetes %q: write %s", minor, strings.Join(KubernetesVersions(), ", "))
	}
	return []Component{Etcd, Containerd, CoreDNS, Pause, Provisioner, Policies, kubernetes(minor)}, nil
}

// ForTests are the components that a test of a single controller needs (the KUBEBUILDER_ASSETS of envtest).
func ForTests() []Component { return []Component{Etcd, Kubernetes} }

func kubernetesFlags(release string) string {
	const version = "k8s.io/component-base/version."
	number := strings.Split(strings.TrimPrefix(release, "v"), ".")
	return strings.Join([]string{
		"-X", version + "gitVersion=" + release,
		"-X", version + "gitMajor=" + number[0],
		"-X", version + "gitMinor=" + number[1],
	}, " ")
}

func prefixed(prefix string, names ...string) []string {
	packages := make([]string, 0, len(names))
	for _, name := range names {
		packages = append(packages, prefix+name)
	}
	return packages
}
