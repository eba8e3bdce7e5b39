// Package hibernation says when all instances are stopped because spec.hibernate asks for it, and waits until they are.
package hibernation
