// Package schema validates JSON against the schemas in docs/schema.
package schema
