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

// CopyTLS copies certificate, key and CA to where only we can read them, as PostgreSQL demands. It says whether anything
// was new. A key that doesn't belong to its certificate is refused, and the old ones stay.
func CopyTLS(from, to string) (changed bool, err error) {
	contents := map[string][]byte{}
	for _, name := range []string{CertFile, KeyFile, CAFile} {
		if contents[name], err = os.ReadFile(filepath.Join(from, name)); err != nil {
			return false, err
		}
	}
	if _, err := tls.X509KeyPair(contents[CertFile], contents[KeyFile]); err != nil {
		return false, fmt.Errorf("certificate and key in %s: %w", from, err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return false, err
	}
	for name, content := range contents {
		path := filepath.Join(to, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
			continue
		}
		if err := generation.WriteFile(path, content, 0o600); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}
