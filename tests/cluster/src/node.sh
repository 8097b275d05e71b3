# A Kubernetes node: containerd and a kubelet, as the first process of its own PID and mount namespaces.
# When this shell ends, every process that was started in here ends, whatever its parent is by then, and with
# the last of them every mount: nothing has to be found and removed. Arguments: the node's directory, the
# kubelet, the kubeconfig.
set -eu
directory=$1
kubelet=$2
kubeconfig=$3
PATH=$PATH:/usr/sbin:/sbin

# Directories that containerd, its shims and the kubelet use outside their own, without a setting for it.
for place in /run /var/lib /var/log; do
    mount -t tmpfs -o mode=755 tmpfs "$place"
done

# The kubelet would set these for the whole machine. In here it finds them set, and doesn't change them.
mkdir "$directory/sysctl"
while read -r name value; do
    [ -e "/proc/sys/$name" ] || continue
    file=$directory/sysctl/${name##*/}
    echo "$value" >"$file"
    mount --bind "$file" "/proc/sys/$name"
done <<END
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
END

containerd --config "$directory/containerd.toml" >"$directory/containerd.log" 2>&1 &
containerd=$!
until ctr --address "$directory/containerd.sock" version >/dev/null 2>&1; do
    kill -0 "$containerd" || { echo "containerd has ended:"; tail "$directory/containerd.log"; exit 1; }
    sleep 0.1
done
ctr --address "$directory/containerd.sock" --namespace k8s.io images import --snapshotter native "$directory/pause.tar"

# In the foreground, not instead of this shell: it collects what the shims leave behind.
"$kubelet" --config "$directory/kubelet.json" --kubeconfig "$kubeconfig" \
    --root-dir "$directory/kubelet" --cert-dir "$directory/pki" --hostname-override localhost
