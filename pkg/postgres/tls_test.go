package postgres

import (
	"errors"
	"testing"
)

func TestTLSMayBeStricterButNotWeaker(t *testing.T) {
	for _, c := range []struct {
		name, value string
		allowed     bool
	}{
		{"ssl_min_protocol_version", "TLSv1.3", true}, {"ssl_min_protocol_version", "TLSv1.2", true},
		{"ssl_min_protocol_version", "TLSv1.1", false}, {"ssl_min_protocol_version", "", false},
		{"ssl_ciphers", "HIGH:!aNULL:!MD5", true}, {"ssl_ciphers", "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384", true},
		{"ssl_ciphers", "HIGH:-3DES @STRENGTH", true}, {"ssl_ciphers", "ALL", false}, {"ssl_ciphers", "HIGH:aNULL", false},
		{"ssl_ciphers", "DES-CBC3-SHA", false}, {"ssl_ciphers", "HIGH,NULL", false}, {"ssl_ciphers", "AECDH+AES", false},
		{"ssl_tls13_ciphers", "", true}, {"ssl_tls13_ciphers", "TLS_AES_256_GCM_SHA384", true},
		{"ssl_ecdh_curve", "prime256v1", true}, {"ssl_ecdh_curve", "brainpoolP512r1", false},
		{"ssl_groups", "brainpoolP512r1:secp384r1", true}, {"ssl_groups", "x25519", true}, {"ssl_groups", "", false},
		{"ssl_max_protocol_version", "TLSv1.3", false}, {"ssl_key_file", "/x", false}, {"ssl", "off", false}, {"ssl_unheard_of", "1", false},
	} {
		if err := CheckParameter(c.name, c.value); (err == nil) != c.allowed || err != nil && !errors.Is(err, ErrParameter) {
			t.Errorf("%s = %q: %v", c.name, c.value, err)
		}
	}
}
