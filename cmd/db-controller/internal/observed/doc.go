// Package observed is everything that one pass has seen of a cluster, and the plain facts that follow from it.
package observed
