// Package maintenance says when the maintenance window is open, in which what runs may be taken down.
package maintenance
