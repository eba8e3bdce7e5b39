// Package observedtest has clusters as they may be observed, for tests.
package observedtest
