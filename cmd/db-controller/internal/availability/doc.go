// Package availability says whether an instance accepts connections and could take over as primary, and if not, why.
package availability
