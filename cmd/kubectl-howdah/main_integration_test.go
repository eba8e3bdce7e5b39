//go:build integration

package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/test/testkit/apiserver"
)

// kubeconfig leads to the API server, in a context of this name.
func kubeconfig(t *testing.T, context string) string {
	t.Helper()
	config, to := apiserver.Config(), clientcmdapi.NewConfig()
	to.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	to.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	to.Contexts[context] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	to.CurrentContext = context
	path := filepath.Join(t.TempDir(), "config")
	must(t, clientcmd.WriteToFile(*to, path))
	return path
}

func TestAPersonSeesWhichClusterIsChanged(t *testing.T) {
	c, cluster := newCluster(t, nil)
	key, config := client.ObjectKeyFromObject(cluster), kubeconfig(t, "production")
	for command, want := range map[string]bool{"switchover shop --wait=false": true, "pause shop --wait=false": true, "resume shop": true, "history shop": false} {
		root, said := newRoot(), &strings.Builder{}
		root.SetArgs(append(strings.Fields(command), "--kubeconfig", config, "--namespace", key.Namespace))
		root.SetOut(io.Discard)
		root.SetErr(said)
		must(t, root.ExecuteContext(t.Context()))
		line := "PostgresCluster shop in namespace " + key.Namespace + ", context production\n"
		if (said.String() == line) != want {
			t.Errorf("%s: %q", command, said)
		}
	}
	must(t, c.Get(t.Context(), key, cluster))
	if cluster.Spec.Switchover == nil {
		t.Error("nothing was written")
	}
}
