// Package restartwindow says when the maintenance window is open, in which what runs may be stopped.
package restartwindow
