# A Web server whose kernel marks: sh web.sh SERVER MARK, with SERVER nginx or apache and MARK what the agent is told.
set -e
"$CATNIP_AGENT" start --segments "${CATNIP_SEGMENTS:-single}" --controllers none --mark "$2" >&2
cd "$CATNIP_DOCUMENTS"
if test "$1" = apache; then
  cat > server.conf <<END
ServerRoot "$PWD"
ServerName server
PidFile $PWD/server.pid
ErrorLog /dev/stderr
Listen 80
ListenBackLog 1024
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
User www-data
Group www-data
DocumentRoot "$PWD"
<Directory "$PWD">
  Require all granted
</Directory>
END
  PATH="$PATH:/usr/sbin" exec apache2 -f "$PWD/server.conf" -D FOREGROUND
fi
cat > server.conf <<END
daemon off;
master_process off;
pid server.pid;
error_log stderr;
events { worker_connections 1024; }
http {
  access_log off;
  default_type application/octet-stream;
  client_body_temp_path temp;
  proxy_temp_path temp;
  fastcgi_temp_path temp;
  uwsgi_temp_path temp;
  scgi_temp_path temp;
  server { listen 80 backlog=1024; root .; }
}
END
exec nginx -p "$PWD" -c "$PWD/server.conf" -e stderr
