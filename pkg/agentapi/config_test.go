package agentapi

import "testing"

func TestWhichSpecAConfigurationIsOfDoesNotCountForItsHash(t *testing.T) {
	config := Config{Cluster: "shop", ClusterUID: "u"}
	before := config.Hash()
	if config.SpecGeneration, config.SpecUID = 7, "v"; config.Hash() != before {
		t.Error("every change of spec would be a change of the configuration")
	}
	if config.Cluster = "other"; config.Hash() == before {
		t.Error("a change of the configuration doesn't show")
	}
}
