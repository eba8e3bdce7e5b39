// Package scaling changes the number of instances in an order that never leaves two primaries, or none that has the data.
package scaling
