// Package hibernation says when all instances are stopped because spec.hibernate requests it, and waits until they are.
package hibernation
