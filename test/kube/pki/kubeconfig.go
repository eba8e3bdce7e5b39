package pki

import (
	"encoding/json"
	"os"
)

// Kubeconfig renders a kubeconfig that needs no other file. JSON is YAML too.
func Kubeconfig(server, cluster string, authority []byte, pair Pair) ([]byte, error) {
	type object = map[string]any
	return json.MarshalIndent(object{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []object{{"name": cluster, "cluster": object{
			"server": server, "certificate-authority-data": authority,
		}}},
		"users": []object{{"name": "admin", "user": object{
			"client-certificate-data": pair.Certificate, "client-key-data": pair.Key,
		}}},
		"contexts":        []object{{"name": cluster, "context": object{"cluster": cluster, "user": "admin"}}},
		"current-context": cluster,
	}, "", "  ")
}

// SaveKubeconfig writes a kubeconfig that only its owner may read: it holds a key.
func SaveKubeconfig(file string, content []byte) error { return os.WriteFile(file, content, 0o600) }
