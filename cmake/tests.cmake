# Written by tools/cmake_lists from the BUILD files; .ci/run fails where the two
# differ.

if(TARGET wheelcache::wheelcache)
  target_sources(wheelcache_testing PRIVATE
    tests/testing/browser.cc
    tests/testing/cache_driver.cc
    tests/testing/cache_driver_compare.cc
    tests/testing/cache_driver_conditional.cc
    tests/testing/cache_driver_loads.cc
    tests/testing/cache_driver_refreshes.cc
    tests/testing/child.cc
    tests/testing/html_page.cc
    tests/testing/prometheus_text.cc)
  wheelcache_test(arena_test tests/cache/internal/memory/arena_test.cc COPTS -O1)
  wheelcache_test(base_test tests/wheel/base/base_test.cc)
  wheelcache_test(block_heap_test tests/cache/internal/memory/block_heap_test.cc COPTS -O1)
  wheelcache_test(bookkeeping_test tests/cache/internal/engine/bookkeeping_test.cc)
  wheelcache_test(cache_allocation_test tests/cache/cache_allocation_test.cc LINKOPTS -Wl,--wrap=calloc,--wrap=mmap,--wrap=mprotect,--wrap=pthread_create)
  wheelcache_test(cache_callbacks_test tests/cache/cache_callbacks_test.cc)
  wheelcache_test(cache_conditional_race_test tests/cache/cache_conditional_race_test.cc)
  wheelcache_test(cache_conditional_test tests/cache/cache_conditional_test.cc)
  wheelcache_test(cache_expiry_test tests/cache/cache_expiry_test.cc)
  wheelcache_test(cache_for_each_test tests/cache/cache_for_each_test.cc COPTS -O1)
  wheelcache_test(cache_idle_ttl_test tests/cache/cache_idle_ttl_test.cc)
  wheelcache_test(cache_lifetime_test tests/cache/cache_lifetime_test.cc)
  wheelcache_test(cache_limits_test tests/cache/cache_limits_test.cc COPTS -O1)
  wheelcache_test(cache_linearizability_test tests/cache/cache_linearizability_test.cc COPTS -O2 -std=c++20)
  wheelcache_test(cache_load_memory_failure_test tests/cache/cache_load_memory_failure_test.cc LINKOPTS -Wl,--wrap=calloc,--wrap=mmap,--wrap=mprotect)
  wheelcache_test(cache_load_race_test tests/cache/cache_load_race_test.cc)
  wheelcache_test(cache_load_test tests/cache/cache_load_test.cc)
  wheelcache_test(cache_model_test tests/cache/cache_model_test.cc)
  wheelcache_test(cache_move_test tests/cache/cache_move_test.cc)
  wheelcache_test(cache_refresh_test tests/cache/cache_refresh_test.cc)
  wheelcache_test(cache_stats_test tests/cache/cache_stats_test.cc)
  wheelcache_test(cache_test tests/cache/cache_test.cc)
  wheelcache_test(cache_threads_test tests/cache/cache_threads_test.cc)
  wheelcache_test(clock_test tests/wheel/clock_test.cc)
  wheelcache_test(entry_test tests/cache/internal/entry/entry_test.cc)
  wheelcache_test(epoch_test tests/cache/internal/epoch/epoch_test.cc COPTS -O1)
  wheelcache_test(hash_test tests/cache/internal/index/hash_test.cc COPTS -O1)
  wheelcache_test(index_test tests/cache/internal/index/index_test.cc)
  wheelcache_test(loads_test tests/cache/internal/loads/loads_test.cc)
  wheelcache_test(lru_model_test tests/lru/lru_model_test.cc COPTS -O1)
  wheelcache_test(lru_test tests/lru/lru_test.cc)
  wheelcache_test(oracles_test tests/testing/oracles_test.cc)
  wheelcache_test(pages_test tests/cache/internal/memory/pages_test.cc LINKOPTS -Wl,--wrap=madvise,--wrap=mmap,--wrap=mprotect,--wrap=munmap,--wrap=syscall,--wrap=sysconf)
  wheelcache_test(policy_model_test tests/cache/policy_model_test.cc COPTS -O2)
  wheelcache_test(reaper_test tests/wheel/reaper_test.cc LINKOPTS -Wl,--wrap=pthread_create)
  wheelcache_test(reuse_sample_test tests/cache/internal/advice/reuse_sample_test.cc COPTS -O1)
  wheelcache_test(shard_test tests/cache/internal/engine/shard_test.cc)
  wheelcache_test(snapshot_test tests/cache/snapshot/snapshot_test.cc COPTS -O1 LINKOPTS -Wl,--wrap=calloc,--wrap=mmap,--wrap=mprotect,--wrap=open,--wrap=flock,--wrap=ftruncate,--wrap=write,--wrap=fsync,--wrap=rename,--wrap=pread)
  wheelcache_test(status_page_test tests/cache/report/status_page_test.cc)
  wheelcache_test(threads_test tests/cache/internal/threads/threads_test.cc COPTS -O2)
  wheelcache_test(timer_service_test tests/wheel/timer_service_test.cc)
  wheelcache_test(timer_service_threads_test tests/wheel/timer_service_threads_test.cc)
  wheelcache_test(timing_wheel_test tests/wheel/timing_wheel_test.cc COPTS -O1)
  wheelcache_test(two_lists_test tests/cache/internal/engine/two_lists_test.cc)
endif()

if(TARGET wheelcache::near)
  target_sources(wheelcache_testing PRIVATE
    tests/testing/redis_cluster.cc
    tests/testing/redis_server.cc
    tests/testing/relay.cc)
  wheelcache_test(await_test tests/cache/await_test.cc COPTS -std=c++20 LINKOPTS -Wl,--wrap=calloc,--wrap=mmap,--wrap=mprotect)
  wheelcache_test(near_cache_test tests/cache/near/near_cache_test.cc)
  wheelcache_test(near_cluster_promise_test tests/cache/near/redis/near_cluster_promise_test.cc)
  wheelcache_test(near_interleaving_test tests/cache/near/near_interleaving_test.cc)
  wheelcache_test(near_lease_test tests/cache/near/near_lease_test.cc)
  wheelcache_test(near_promise_test tests/cache/near/near_promise_test.cc)
  wheelcache_test(near_redis_promise_test tests/cache/near/redis/near_redis_promise_test.cc)
  wheelcache_test(redis_client_test tests/cache/near/redis/redis_client_test.cc)
  wheelcache_test(redis_cluster_test tests/cache/near/redis/redis_cluster_test.cc)
  wheelcache_test(redis_fault_test tests/cache/near/redis/redis_fault_test.cc)
  wheelcache_test(redis_login_test tests/cache/near/redis/redis_login_test.cc)
  wheelcache_test(redis_store_test tests/cache/near/redis/redis_store_test.cc)
  wheelcache_test(report_test tests/cache/report/report_test.cc)
  wheelcache_test(share_test tests/cache/share/share_test.cc COPTS -O1 LINKOPTS -Wl,--wrap=calloc,--wrap=mmap,--wrap=mprotect)
endif()

if(TARGET wheelcache::near_tls)
  wheelcache_test(tls_test tests/cache/near/tls/tls_test.cc)
endif()
