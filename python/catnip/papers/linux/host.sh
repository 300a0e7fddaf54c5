# A server of linux-stack: sh host.sh CONTROL INITIAL_WINDOW RECOVERY MARK. RECOVERY 1 is the kernel's own, with RACK and tail loss
# probes; 0 is without both. MARK is what the agent is told; with none it marks nothing, and segments still leave one by one.
set -e
control=$1 window=$2 recovery=$3 mark=$4
settings=/proc/sys/net/ipv4
echo "$recovery" > $settings/tcp_recovery
echo 1 > $settings/tcp_no_metrics_save
test "$recovery" = 1 || echo 0 > $settings/tcp_early_retrans
ip route show | while read -r route; do ip route change $route initcwnd "$window" congctl "$control"; done
"$CATNIP_AGENT" start --segments single --controllers none --mark "$mark" >&2
mkdir -p "$CATNIP_DOCUMENTS/$CATNIP_HERE"
cd "$CATNIP_DOCUMENTS/$CATNIP_HERE"
for size in $CATNIP_FILES; do head -c "$size" /dev/zero > "$size"; done
cat > nginx.conf <<END
daemon off; master_process off; pid nginx.pid; error_log stderr;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; default_type application/octet-stream;
  client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp; scgi_temp_path temp;
  server { listen 8080 backlog=1024; root .; }
}
END
exec nginx -p "$PWD" -c "$PWD/nginx.conf" -e stderr
