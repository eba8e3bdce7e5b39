// Package phrase joins fragments into the sentences of conditions and events.
package phrase
