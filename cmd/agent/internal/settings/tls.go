package settings

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"howdah.dev/howdah/cmd/agent/internal/generation"
)

// Names in a folder of TLS files, as in the Secret.
const (
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
	CAFile   = "ca.crt"
)

// TLSFiles are what is in such a folder.
type TLSFiles struct {
	Certificate, Key, CA []byte
}

// ReadTLS reads a folder of TLS files.
func ReadTLS(dir string) (files TLSFiles, err error) {
	for name, content := range files.byName() {
		if *content, err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return TLSFiles{}, err
		}
	}
	return files, nil
}

func (f *TLSFiles) byName() map[string]*[]byte {
	return map[string]*[]byte{CertFile: &f.Certificate, KeyFile: &f.Key, CAFile: &f.CA}
}

// Write puts the files where only we can read them, as PostgreSQL demands. A key that doesn't belong to its certificate is refused, and the
// old files stay.
func (f TLSFiles) Write(to string) error {
	if _, err := tls.X509KeyPair(f.Certificate, f.Key); err != nil {
		return fmt.Errorf("certificate and key for %s: %w", to, err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for name, content := range f.byName() {
		path := filepath.Join(to, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, *content) {
			continue
		}
		if err := generation.WriteFile(path, *content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
