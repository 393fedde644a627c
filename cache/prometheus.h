#ifndef WHEELCACHE_CACHE_PROMETHEUS_H_
#define WHEELCACHE_CACHE_PROMETHEUS_H_

#include "wheelcache/cache/report/prometheus.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_PROMETHEUS_H_
