package metrics

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"time"
)

// expiry is when the certificate in a file expires, if there is one.
func expiry(file string) (at time.Time, known bool) {
	content, err := os.ReadFile(file)
	if err != nil {
		return at, false
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return at, false
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return at, false
	}
	return certificate.NotAfter, true
}
