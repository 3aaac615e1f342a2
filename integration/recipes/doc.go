// Package recipes runs the configurations in docs/recipes, in the README and in other pages as
// they stand there, with other ports and addresses. Those with nginx, HAProxy or Traefik are
// skipped without it, unless HERMES_PROXIES or HERMES_TRAEFIK is "required".
package recipes
