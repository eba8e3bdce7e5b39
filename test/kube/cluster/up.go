package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"howdah.dev/test/kube/addons"
	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/network"
	"howdah.dev/test/kube/node"
	"howdah.dev/test/kube/nodeinit"
	"howdah.dev/test/kube/oci"
	"howdah.dev/test/kube/topology"
)

// Times after which something must be wrong. They are wide: a machine with two busy cores is slow.
const (
	apiServerTime = 2 * time.Minute
	readyTime     = 3 * time.Minute
	probeEvery    = 100 * time.Millisecond
)

// Prepare builds what a cluster runs: programs and the images that Kubernetes itself needs.
func (c *Cluster) Prepare(ctx context.Context) error {
	bin, err := c.programs(ctx)
	if err != nil {
		return err
	}
	c.Bin = bin
	archives, err := c.ownImages()
	if err != nil {
		return err
	}
	return c.template().Load(ctx, archives...)
}

// ownImages are the images of programs that are built here anyway.
func (c *Cluster) ownImages() ([]string, error) {
	var archives []string
	for _, program := range []string{"pause", "coredns"} {
		archive, err := c.programImage(c.Bin, program)
		if err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

// programImage is the archive of the image of a program in bin, which is kept for later clusters.
func (c *Cluster) programImage(bin, program string) (string, error) {
	folder := filepath.Join(c.Cache, "images")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	built, err := filepath.EvalSymlinks(filepath.Join(bin, program))
	if err != nil {
		return "", err
	}
	archive := filepath.Join(folder, filepath.Base(filepath.Dir(built))+".tar")
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	return archive, oci.WriteProgram(archive, "registry.local/"+program+":1", built)
}

// Up starts a cluster that doesn't run in any part, and returns when workloads can run.
func (c *Cluster) Up(ctx context.Context) error {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"certificates and files", c.writeFiles},
		{"network", c.wire},
		{"start nodes", c.startNodes},
		{"API server ready", c.awaitAPIServer},
		{"DNS and storage class", c.applyAddons},
		{"nodes ready", c.awaitNodes},
		{"DNS ready", c.awaitDNS},
	} {
		if err := c.Report.Step(ctx, step.what, step.do); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) writeFiles(ctx context.Context) error {
	if err := os.MkdirAll(c.Path("volumes"), 0o755); err != nil {
		return err
	}
	if err := c.save(); err != nil {
		return err
	}
	if err := writeCertificates(c.Cluster); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"audit-policy.yaml": addons.AuditPolicy,
		// Names that the cluster doesn't know are nobody's: there is no way out of it.
		"resolv.conf": "nameserver " + c.Address(topology.Nowhere) + "\n",
	} {
		if err := os.WriteFile(c.Path(name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	var all errgroup.Group
	for _, n := range c.Nodes() {
		all.Go(func() error {
			if err := node.WriteFiles(c.Cluster, n); err != nil {
				return err
			}
			return c.template().Clone(ctx, c.NodePath(n.Name, "containerd"))
		})
	}
	return all.Wait()
}

func (c *Cluster) wire(ctx context.Context) error {
	if err := network.Up(ctx, c.Cluster); err != nil {
		return err
	}
	return network.Configure(ctx, c.Cluster)
}

func (c *Cluster) startNodes(ctx context.Context) error {
	for _, n := range c.nodes() {
		if err := n.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) awaitAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiServerTime)
	defer cancel()
	client, err := nodeinit.NewClient(c.Path("pki", "ca.crt"), c.Path("pki", "admin.crt"), c.Path("pki", "admin.key"))
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	control, err := c.Node(topology.ControlPlane)
	if err != nil {
		return err
	}
	err = command.Until(ctx, probeEvery, "the API server", func(ctx context.Context) (bool, error) {
		_, err := control.Init() // nothing starts it again if it died
		return nodeinit.Answers(ctx, client, c.APIServer()+"/readyz"), err
	})
	if err != nil {
		return fmt.Errorf("%w (the logs in %s end with)%s", err, c.NodePath("cp", "log"), c.lastWords("init", "etcd", node.APIServer))
	}
	return nil
}

// lastWords are the ends of logs of the control plane's node: where the caller is a test in a machine that is gone soon,
// nobody can look them up later.
func (c *Cluster) lastWords(logs ...string) string {
	const lines = 12
	var words strings.Builder
	for _, name := range logs {
		content, err := os.ReadFile(c.NodePath(topology.ControlPlane, "log", name+".log"))
		if err != nil {
			fmt.Fprintf(&words, "\n%s: %v", name, err)
			continue
		}
		all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
		for _, line := range all[max(0, len(all)-lines):] {
			fmt.Fprintf(&words, "\n%s: %.300s", name, line)
		}
	}
	return words.String()
}

func (c *Cluster) applyAddons(ctx context.Context) error {
	return c.apply(ctx, addons.Manifests(c.Cluster))
}

// apply continues trying for a moment: namespaces and default roles appear a little after readiness.
func (c *Cluster) apply(ctx context.Context, manifests string) error {
	ctx, cancel := context.WithTimeout(ctx, apiServerTime)
	defer cancel()
	var last error
	err := command.Until(ctx, probeEvery, "the API server to take the manifests", func(ctx context.Context) (bool, error) {
		_, last = c.kubectlWith(ctx, command.Command{
			Args:  []string{"apply", "--server-side", "--force-conflicts", "-f", "-"},
			Stdin: strings.NewReader(manifests),
		})
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

func (c *Cluster) awaitNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	err := command.Until(ctx, probeEvery, "nodes to be ready", func(ctx context.Context) (bool, error) {
		return c.readyNodes(ctx) == len(c.Nodes()), nil
	})
	if err != nil {
		return fmt.Errorf("%w (see the logs in %s)", err, c.Path("nodes", "*", "log"))
	}
	_, err = c.kubectl(ctx, "label", "node", "cp", "node-role.kubernetes.io/control-plane=", "--overwrite")
	return err
}

// readyNodes counts the nodes that say they are ready.
func (c *Cluster) readyNodes(ctx context.Context) int {
	const ready = `{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`
	out, err := c.kubectl(ctx, "get", "nodes", "--request-timeout=5s", "-o", "jsonpath="+ready)
	if err != nil {
		return 0
	}
	return strings.Count(out, "True")
}

func (c *Cluster) awaitDNS(ctx context.Context) error {
	_, err := c.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout="+readyTime.String())
	return err
}
