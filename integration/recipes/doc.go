// Package recipes runs the configurations in docs/recipes and in the README as they stand on
// the page, with other ports and addresses. Those with nginx, HAProxy or Traefik are skipped
// without it, unless HERMES_PROXIES or HERMES_TRAEFIK is "required".
package recipes
