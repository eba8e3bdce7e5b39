module howdah.dev/test/kube/assets/minio

go 1.26.0
