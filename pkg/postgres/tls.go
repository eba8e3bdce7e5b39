package postgres

import (
	"fmt"
	"slices"
	"strings"
)

// tlsChecks judge the parameters of TLS that a person may set. What OpenSSL doesn't know, the server says before it is started or
// reloaded with it.
var tlsChecks = map[string]func(name, value string) error{
	"ssl_min_protocol_version": checkProtocol, "ssl_ciphers": checkCiphers, "ssl_tls13_ciphers": checkCiphers,
	"ssl_ecdh_curve": checkGroups, "ssl_groups": checkGroups,
}

// protocols that no longer have known weaknesses.
var protocols = []string{"TLSv1.2", "TLSv1.3"}

func checkProtocol(name, value string) error {
	if slices.Contains(protocols, value) {
		return nil
	}
	return fmt.Errorf("%w: spec.postgresql.parameters.%s must be TLSv1.2 or TLSv1.3, because earlier versions are broken", ErrParameter, name)
}

// weakCiphers encrypt nothing, prove nothing of who is there, or can be broken. HIGH has none of them.
var weakCiphers = []string{"ALL", "COMPLEMENTOFALL", "COMPLEMENTOFDEFAULT", "NULL", "aNULL", "eNULL", "ADH", "AECDH", "EXP", "EXPORT", "LOW", "DES", "3DES", "RC4", "RC2", "MD5"}

// checkCiphers refuses lists that let such ciphers in. What is taken away, with ! or -, may have any name.
func checkCiphers(name, value string) error {
	if value == "" && name == "ssl_tls13_ciphers" {
		return nil // all of OpenSSL's
	}
	for _, cipher := range strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ',' || r == ' ' }) {
		if strings.ContainsAny(cipher[:1], "!-") {
			continue
		}
		for _, part := range strings.FieldsFunc(cipher, func(r rune) bool { return r == '+' || r == '-' }) {
			if slices.Contains(weakCiphers, part) {
				return fmt.Errorf("%w: spec.postgresql.parameters.%s lets %s in, which can be broken: write a list such as HIGH:!aNULL", ErrParameter, name, cipher)
			}
		}
	}
	return nil
}

// ourGroups are those that Howdah's own connections can agree on with the server, in all their names.
var ourGroups = []string{"X25519", "P-256", "P-384", "P-521", "prime256v1", "secp256r1", "secp384r1", "secp521r1", "X25519MLKEM768"}

func checkGroups(name, value string) error {
	for group := range strings.SplitSeq(value, ":") {
		if slices.ContainsFunc(ourGroups, func(known string) bool { return strings.EqualFold(known, group) }) {
			return nil
		}
	}
	return fmt.Errorf("%w: spec.postgresql.parameters.%s must name at least one of X25519, prime256v1, secp384r1 and secp521r1, "+
		"because Howdah's own connections need it", ErrParameter, name)
}
