#!/bin/bash
# Images out of the trees, for tests that start containers where no registry can be reached. They are named
# dbq.local/NAME:TAG, so that TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX=dbq.local finds them under the official names.
# An image whose stamp matches is left as it is. Needs the trees, a running dockerd and root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

system=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# image | tree | entrypoint | program | port | PATH | more environment
images=(
  "postgres:15|bookworm|postgres.sh|postgres|5432|/usr/lib/postgresql/15/bin:$system|PGDATA=/var/lib/postgresql/data"
  "postgres:17|trixie|postgres.sh|postgres|5432|/usr/lib/postgresql/17/bin:$system|PGDATA=/var/lib/postgresql/data"
  "postgres:18|sid|postgres.sh|postgres|5432|/usr/lib/postgresql/18/bin:$system|PGDATA=/var/lib/postgresql/18/docker"
  "mariadb:10.11|bookworm|mysql.sh|mariadbd|3306|$system|LANG=C.UTF-8"
  "mysql:9.7|sid|mysql.sh|mysqld|3306|$system|LANG=C.UTF-8"
  "mariadb:11.8|trixie|mysql.sh|mariadbd|3306|$system|LANG=C.UTF-8"
)

stamp_of() { cat "$ENGINES/$1/.stamp" "$here/images.sh" "$here"/entrypoints/*.sh | sha256sum | cut -c1-32; }
# The builder without BuildKit: Debian's docker.io comes without buildx.
build() { DOCKER_BUILDKIT=0 timeout 300 docker build -q -t "$1" -f - "$here/entrypoints"; }
label() { docker image inspect --format '{{index .Config.Labels "dbq.stamp"}}' "$1" 2>/dev/null || true; }

for row in "${images[@]}"; do
  IFS='|' read -r name tree entrypoint program port path env <<<"$row"
  stamp=$(stamp_of "$tree")
  [ "$(label "dbq.local/$name")" != "$stamp" ] || continue
  if [ "$(label "dbq.local/tree:$tree")" != "$stamp" ]; then
    # srv holds the data of the native servers.
    tar -C "$ENGINES/$tree" --one-file-system --exclude='./srv/*' -c . |
      timeout 300 docker import --change "LABEL dbq.stamp=$stamp" - "dbq.local/tree:$tree" >/dev/null
  fi
  log=$(mktemp)
  if ! build "dbq.local/$name" >"$log" 2>&1 <<DOCKERFILE
FROM dbq.local/tree:$tree
ENV LANG=C.UTF-8 PATH=$path $env
COPY $entrypoint /usr/local/bin/docker-entrypoint.sh
EXPOSE $port
STOPSIGNAL $([ "$program" = postgres ] && echo SIGINT || echo SIGTERM)
LABEL dbq.stamp=$stamp
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["$program"]
DOCKERFILE
  then
    tail -n 20 "$log" >&2
    die "cannot build dbq.local/$name"
  fi
  rm -f "$log"
  say "built dbq.local/$name"
done
docker image prune -f --filter label=dbq.stamp >/dev/null # what these replaced
