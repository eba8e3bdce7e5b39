package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// basics are the end-to-end tests that run on each kind of cluster: what depends on addresses, Services and the API server is in them.
var basics = []string{
	"TestAClusterServesAndHeals",
	"TestAnotherInstanceTakesOverOrTheSameComesBackWithinSeconds",
	"TestClientsOfAPoolerNoticeNoPlannedChange",
	"TestFromABareBucketTheClusterIsBackWithItsRowsAndPasswords",
	"TestMajorUpgrades",
	"TestNothingAcknowledgedIsLostWhenTheNodeOfASynchronousPrimaryDiesOrIsCutOff",
	"TestTheServicesLeadToTheInstancesThatTheyNameAndFollowASwitchover",
}

// variant is a kind of cluster that `make test-full` tries besides the usual one.
type variant struct {
	name   string
	suffix string   // of the cluster's name
	make   []string // variables for make
}

var variants = []variant{
	{name: "ipv6", suffix: "6", make: []string{"IP=IPv6"}},
	{name: "dualstack", suffix: "46", make: []string{"IP=DualStack"}},
	{name: "oldest", suffix: "old", make: []string{"KUBERNETES=1.33"}},
}

// stage runs the basics on a cluster that it starts and removes.
func (v variant) stage() *stage {
	name := "e2e-" + v.name
	return &stage{
		name: name, about: "the basics on a cluster with " + strings.Join(v.make, " "), needs: []string{"kubernetes"},
		run: func(ctx context.Context, t *tally) error {
			env, err := v.env()
			if err != nil {
				return err
			}
			if os.Getenv("KEEP") == "" {
				defer func() { _ = command(context.WithoutCancel(ctx), name+" down", env, "build/bin/kube", "down") }()
			}
			if err := command(ctx, name+" up", env, append([]string{"make", "cluster", "deploy"}, v.make...)...); err != nil {
				return err
			}
			return goTests(ctx, t, goSuite{
				name: name, tags: "e2e", packages: []string{"./test/e2e"}, run: "^(" + strings.Join(basics, "|") + ")$",
				parallel: clustersAtOnce, short: true, timeout: time.Hour, env: env,
			})
		},
	}
}

// env points kube, make and tests at the cluster.
func (v variant) env() ([]string, error) {
	kubeconfig, err := filepath.Abs(filepath.Join("build", "e2e-"+v.name, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	const longest = 9 // name of a cluster
	prefix := cmp.Or(os.Getenv("HOWDAH_PREFIX"), "howdah")
	prefix = prefix[:min(len(prefix), longest-len(v.suffix))] + v.suffix
	return []string{"HOWDAH_PREFIX=" + prefix, "KUBECONFIG=" + kubeconfig, "LOCAL_KUBECONFIG=" + kubeconfig}, nil
}
