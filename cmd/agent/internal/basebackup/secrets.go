package basebackup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
)

// keptSecrets reads the Secrets that the manifest keeps, as they are mounted below dir. Without encryption it keeps none,
// whatever the task says.
func keptSecrets(task agentapi.BackupJob, dir string) ([]backup.Secret, error) {
	if encryption := task.Repository.Encryption; encryption == nil || encryption.Sign {
		return nil, nil
	}
	var kept []backup.Secret
	for _, wanted := range task.Secrets {
		data, err := readSecret(filepath.Join(dir, wanted.Name))
		if err != nil {
			return nil, fmt.Errorf("read Secret %s: %w", wanted.Name, err)
		}
		if len(data) > 0 {
			kept = append(kept, backup.Secret{Purpose: wanted.Purpose, Name: wanted.Name, Data: data})
		}
	}
	return kept, nil
}

// readSecret reads a mounted Secret. One that isn't there has nothing in it.
func readSecret(dir string) (backup.SecretData, error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	data := backup.SecretData{}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), "..") {
			continue // Kubernetes' own
		}
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		data[file.Name()] = content
	}
	return data, nil
}
